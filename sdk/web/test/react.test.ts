// The hooks, in strict mode, with React's own renderer and the real service.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, afterEach, before, describe, test } from "node:test";
import { Window } from "happy-dom";
import { type ReactNode, StrictMode, createElement, useEffect, useState } from "react";
import { flushSync } from "react-dom";
import { type Root, createRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { type Companion, CompanionError, type Topic, createCompanion } from "../src/index.js";
import { CompanionProvider, useCompanion, useFeedback, useGuild, useGuilds, useInvitableGuilds, useLive, useMe, useSession, useSessions, useStats, useStatus, useTeam } from "../src/react.js";
import { Browser, Network, ORIGIN, Service, type Tab, leave, needsService, until } from "./support.js";

/** React's scheduler, which comes with react-dom. */
interface Scheduler {
  unstable_IdlePriority: number;
  unstable_scheduleCallback(priority: number, run: () => void): unknown;
}
const scheduler = createRequire(import.meta.url)("scheduler") as Scheduler;
/** Waits until React has done what it does later, such as cleaning up components. It reads `window` then. */
const reactIsDone = () => new Promise<void>((resolve) => void scheduler.unstable_scheduleCallback(scheduler.unstable_IdlePriority, resolve));

const service = new Service();
const globals = globalThis as Record<string, unknown>;

/** A page in a tab, with its own client. */
class Page {
  readonly network = new Network();
  readonly companion: Companion;
  readonly #dom = new Window();
  readonly #root: Root;
  readonly #warnings: string[] = [];
  readonly #error = console.error;

  constructor(readonly tab: Tab, strict = true) {
    tab.enter();
    this.companion = createCompanion({ url: service.url, fetch: this.network.fetch });
    // React's warnings fail the test, for example updates of unmounted components.
    console.error = (...words: unknown[]) => void this.#warnings.push(words.join(" "));
    // React needs the tab's document.
    Object.assign(tab, { document: this.#dom.document, event: undefined, HTMLIFrameElement: this.#dom.HTMLIFrameElement });
    globals["document"] = this.#dom.document;
    const element = this.#dom.document.createElement("div");
    this.#root = createRoot(element as unknown as Element);
    this.text = () => element.textContent ?? "";
    this.wrap = (content) => {
      const inside = createElement(CompanionProvider, { companion: this.companion, navigate: this.navigate }, content);
      return strict ? createElement(StrictMode, null, inside) : inside;
    };
  }

  /** Where the provider component has navigated to. */
  readonly visited: string[] = [];
  readonly navigate = (to: string): void => {
    this.visited.push(to);
    this.tab.location.href = ORIGIN + to;
  };
  readonly text: () => string;
  readonly wrap: (content: ReactNode) => ReactNode;

  show(content: ReactNode): void {
    flushSync(() => this.#root.render(this.wrap(content)));
  }

  async sees(text: string | RegExp): Promise<void> {
    await until(`the page shows ${text}`, () => (typeof text === "string" ? this.text().includes(text) : text.test(this.text())));
  }

  async signIn(person: string): Promise<void> {
    await this.companion.signIn();
    this.tab.goto(await service.choose(this.tab.assigned as string, person));
  }

  async close(): Promise<void> {
    this.#root.unmount();
    await reactIsDone();
    this.companion.close();
    console.error = this.#error;
    delete globals["document"];
    await this.#dom.happyDOM.close();
    assert.deepEqual(this.#warnings, []);
  }
}

function Guilds(): ReactNode {
  const { user } = useSession();
  const { data, error, loading, reload } = useGuilds();
  // Wouldn't compile with an unknown code.
  if (error?.code === "idp_unavailable") return createElement("p", null, `error ${error.code}, ${data?.length} guilds`);
  const button = createElement("button", { onClick: () => reload({ fresh: true }) });
  return createElement("p", null, `${user?.name ?? "nobody"}: ${loading ? "loading" : (data?.map(({ name }) => name).join() ?? "none")}`, button);
}

/** How often the stream has said that this may have changed. */
function changesOf(topic: Topic, { companion }: Page): () => number {
  let changes = 0;
  companion.live((topics) => (changes += Number(topics.includes(topic))));
  return () => changes;
}

describe("the hooks", { skip: needsService }, () => {
  let page: Page | undefined;
  before(() => service.start());
  after(() => service.end());
  afterEach(async () => {
    await page?.close();
    page = undefined;
    leave();
    await service.control("DELETE");
  });

  test("shows who is signed in and their guilds, and two components share one read", async () => {
    page = new Page(new Browser().tab());
    const changes = changesOf("guilds", page);
    page.show([createElement(Guilds, { key: 1 }), createElement(Guilds, { key: 2 })]);
    await page.sees("nobody: none");
    await page.signIn("owner");
    await page.companion.handleCallback();
    await page.sees(/Marlow Quay: .*Harbour City Roleplay.*Marlow Quay: .*Harbour City Roleplay/);
    // One on sign-in, and one whenever the list has changed, but not one per component.
    assert.ok(page.network.count("GET", "/guilds") <= 1 + changes(), `${page.network.count("GET", "/guilds")}, ${changes()} changes`);
    await page.companion.signOut();
    await page.sees(/^nobody: nonenobody: none$/);
  });

  test("never shows one user's data to the next, even if nothing was shown in between", async () => {
    page = new Page(new Browser().tab());
    await page.signIn("owner");
    await page.companion.handleCallback();
    page.show(createElement(Guilds));
    await page.sees("Harbour City Roleplay");
    page.show(null);
    // React cleans up unmounted components with a delay.
    await until("no stream is open", () => page?.network.calls.filter(({ path }) => path === "/me/live").every(({ init }) => init.signal?.aborted) ?? false);
    await page.companion.signOut();
    const seen: (string | undefined)[] = [];
    const Spy = () => {
      seen.push(useGuilds().data?.map(({ name }) => name).join());
      return null;
    };
    page.show(createElement(Spy));
    assert.ok(seen.length > 0);
    assert.deepEqual(seen.filter((each) => each !== undefined), []);
  });

  test("handling the callback in an effect creates one session in strict mode", async () => {
    page = new Page(new Browser().tab());
    await page.signIn("collector");
    const results: unknown[] = [];
    const Callback = () => {
      const companion = useCompanion();
      const [text, setText] = useState("…");
      useEffect(() => {
        let here = true;
        companion.handleCallback().then(
          (result) => {
            results.push(result);
            if (here) setText(`hello ${result?.user.username}`);
          },
          (error: unknown) => setText((error as CompanionError).code),
        );
        return () => void (here = false);
      }, [companion]);
      return text;
    };
    page.show(createElement(Callback));
    await page.sees("hello ");
    assert.equal(results.length, 2);
    assert.equal(results[0], results[1]);
    assert.equal(page.network.count("POST", "/auth"), 1);
    assert.equal((await page.companion.sessions()).length, 1);
  });

  test("the provider component completes a sign-in, goes back to where the user was, and reports when the session has loaded", async () => {
    const tab = new Browser().tab(`${ORIGIN}/guilds/7`);
    page = new Page(tab);
    const seen: string[] = [];
    const Who = () => {
      const { isLoaded, user, error, reason } = useSession();
      const text = `${isLoaded ? (user?.username ?? "nobody") : "loading"} ${error?.code ?? ""} ${reason ?? ""}`.trim();
      if (seen.at(-1) !== text) seen.push(text);
      return text;
    };
    await page.signIn("collector");
    page.show(createElement(Who));
    await page.sees(/^(?!loading)/);
    assert.equal(seen[0], "loading");
    assert.equal(seen.includes("nobody"), false, "no flash of the signed-out page");
    assert.deepEqual(page.visited, ["/guilds/7"]);
    assert.equal(page.network.count("POST", "/auth"), 1);
    await service.control("POST", "end-sessions/collector");
    await assert.rejects(page.companion.me());
    await page.sees("nobody  ended");
    await page.close();

    // Cancel.
    page = new Page(new Browser().tab(`${ORIGIN}/guilds/7`));
    await page.signIn("cancel");
    page.show(createElement(Who));
    await page.sees("nobody access_denied");
    assert.deepEqual(page.visited, ["/guilds/7"]);
  });

  test("there's a hook for every read, with the age of its data", async () => {
    page = new Page(new Browser().tab());
    await page.signIn("owner");
    const All = () => {
      const guilds = useGuilds();
      const readings = [useMe(), guilds, useInvitableGuilds(), useSessions(), useStatus(), useTeam(), useFeedback(), useStats()];
      const isComplete = readings.every(({ data, updatedAt, loading }) => data && !loading && (updatedAt as number) > 1e12);
      return createElement("p", null, isComplete ? "complete " : "… ", createElement(One, { id: guilds.data?.[0]?.id ?? "1" }));
    };
    const One = ({ id }: { id: string }) => {
      const { data, error } = useGuild(id);
      return data?.name ?? error?.code ?? "…";
    };
    page.show(createElement(All));
    await page.sees("complete Harbour City Roleplay");
    page.show(createElement(One, { id: "1" }));
    await page.sees("guild_not_found");
  });

  test("150 cards, each with a hook of its own, read one list", async () => {
    page = new Page(new Browser().tab());
    await page.signIn("collector");
    const changes = changesOf("guilds", page);
    const Card = ({ id }: { id: string }) => createElement("p", null, useGuild(id).data ? "shown " : (useGuild(id).error?.code ?? "… "));
    const Cards = () => (useGuilds().data ?? []).map(({ id }) => createElement(Card, { key: id, id }));
    page.show(createElement(Cards));
    await page.sees("shown ");
    const count = (await page.companion.guilds()).length;
    assert.ok(count >= 150, String(count));
    await until("all are shown", () => page?.text() === "shown ".repeat(count));
    assert.deepEqual(page.network.calls.filter(({ path }) => path.startsWith("/guilds/")), []);
    assert.ok(page.network.count("GET", "/guilds") <= 2 + changes(), `${page.network.count("GET", "/guilds")}, ${changes()} changes`);
  });

  test("Back to the provider and another choice, while signed in, is no failure", async () => {
    const tab = new Browser().tab();
    page = new Page(tab);
    await page.signIn("owner");
    const state = tab.location.searchParams.get("state") as string;
    await page.companion.handleCallback();
    tab.goto(`${ORIGIN}/callback?code=member&state=${state}`);
    const Who = () => {
      const { isLoaded, user, error } = useSession();
      return isLoaded ? `${user?.name} ${error?.code}` : "…";
    };
    page.show(createElement(Who));
    await page.sees("Marlow Quay undefined");
  });

  test("errors are typed and keep the last good list", async () => {
    page = new Page(new Browser().tab());
    await page.signIn("owner");
    await page.companion.handleCallback();
    let reload: () => void = () => undefined;
    const Spy = () => {
      ({ reload } = useGuilds());
      return createElement(Guilds);
    };
    page.show(createElement(Spy));
    await page.sees("Harbour City Roleplay");
    await service.control("PUT", "guilds-fail/owner");
    reload();
    await page.sees(/error idp_unavailable, [1-9]/);
  });

  test("the status updates without a reload, and `useLive` reports what else has changed", async () => {
    page = new Page(new Browser().tab());
    const heard = new Set<string>();
    const Status = () => {
      useLive((topics) => topics.forEach((topic) => heard.add(topic)));
      return useStatus().data?.health.bot.uptime.readable ?? "…";
    };
    page.show(createElement(Status));
    await page.sees(/^(?!offline)[^…]+$/);
    await service.control("PUT", "bot-offline");
    await page.sees("offline");
    assert.deepEqual([...heard].sort(), ["feedback", "stats", "status", "team"]);
    // No stream stays open without mounted components.
    page.show(null);
    await until("no stream is open", () => page?.network.calls.filter(({ path }) => path === "/live").every(({ init }) => init.signal?.aborted) ?? false);
  });

  test("works without strict mode", async () => {
    page = new Page(new Browser().tab(), false);
    await page.signIn("owner");
    await page.companion.handleCallback();
    page.show(createElement(Guilds));
    await page.sees("Harbour City Roleplay");
  });

  test("during server rendering, no one is signed in, and everything is loading", () => {
    leave();
    const companion = createCompanion({ url: service.url });
    const html = renderToString(createElement(CompanionProvider, { companion }, createElement(Guilds)));
    assert.match(html, /nobody: loading/);
    assert.throws(() => renderToString(createElement(Guilds)), /CompanionProvider/);
  });
});

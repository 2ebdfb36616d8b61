// Live streams, shared by tabs and reopened when lost, with the real service.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { type Companion, type CompanionOptions, type Reading, type Stats, type Status, createCompanion } from "../src/index.js";
import { sleep } from "../src/call.js";
import { Browser, Network, Service, type Tab, leave, needsService, uncaught, until } from "./support.js";

const service = new Service();
const open: Companion[] = [];

function companionIn(tab: Tab, network: Network, options: Partial<CompanionOptions> = {}): Companion {
  tab.enter();
  const companion = createCompanion({ url: service.url, fetch: network.fetch, ...options });
  open.push(companion);
  return companion;
}

async function signIn(companion: Companion, tab: Tab, person: string): Promise<void> {
  tab.enter();
  await companion.signIn();
  tab.goto(await service.choose(tab.assigned as string, person));
  await companion.handleCallback();
}

const streams = (network: Network): string[] => network.calls.map(({ path }) => path).filter((path) => path.endsWith("/live"));

describe("live", { skip: needsService }, () => {
  before(() => service.start());
  after(() => service.end());
  afterEach(async () => {
    for (const companion of open.splice(0)) companion.close();
    leave();
    await service.control("DELETE");
  });

  test("the first event names every topic, and signing in or out switches the stream", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    const heard: string[][] = [];
    const stop = companion.live((topics) => heard.push(topics));
    await until("the first event", () => heard.length > 0);
    assert.deepEqual(heard[0], ["status", "team", "feedback", "stats"]);
    assert.deepEqual(streams(network), ["/live"]);

    // A later listener is also called with every topic, without another stream.
    const late: string[][] = [];
    companion.live((topics) => late.push(topics))();
    companion.live((topics) => late.push(topics));
    await until("the late listener", () => late.length > 0);
    assert.deepEqual(late, [["status", "team", "feedback", "stats"]]);

    await signIn(companion, tab, "owner");
    await until("the user's topics", () => heard.some((topics) => topics.includes("guilds")));
    assert.deepEqual(streams(network), ["/live", "/me/live"]);
    await companion.signOut();
    await until("the public stream", () => streams(network).length === 3);
    assert.equal(streams(network)[2], "/live");
    stop();
  });

  test("a listener that throws doesn't affect the others, and a removed one isn't called", async () => {
    const network = new Network();
    const companion = companionIn(new Browser().tab(), network);
    const heard: string[][] = [];
    const thrown = await uncaught(async () => {
      companion.live(() => {
        throw new Error("a bug in the page");
      });
      companion.live((topics) => heard.push(topics));
      companion.live(() => assert.fail("gone"))();
      await until("the other one", () => heard.length > 0);
    });
    assert.match(String(thrown), /a bug in the page/);
  });

  test("tabs share one stream, and another tab takes over when the leading one is closed", async () => {
    const network = new Network();
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab(), browser.tab()];
    const companions = tabs.map((tab) => companionIn(tab, network));
    const heard: string[][][] = tabs.map(() => []);
    await signIn(companions[0] as Companion, tabs[0] as Tab, "owner");
    await until("all are signed in", () => companions.every((companion) => companion.session()));
    companions.forEach((companion, i) => companion.live((topics) => heard[i]?.push(topics)));
    await until("all have heard", () => heard.every(({ length }) => length > 0));
    assert.deepEqual(streams(network), ["/me/live"]);

    heard.forEach((each) => (each.length = 0));
    await service.control("PUT", "bot-offline");
    await until("all hear of a change", () => heard.every((each) => each.some((topics) => topics.includes("status"))));
    assert.deepEqual(streams(network), ["/me/live"]);

    heard.forEach((each) => (each.length = 0));
    companions[0]?.close();
    await until("another stream", () => streams(network).length === 2);
    await until("the others hear of everything", () => heard.slice(1).every((each) => each.some((topics) => topics.includes("me"))));
    assert.deepEqual(heard[0], []);
    assert.deepEqual(streams(network), ["/me/live", "/me/live"]);
  });

  test("a hidden tab leaves the stream to another, and hears of everything when it is seen again", async () => {
    const network = new Network();
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab()] as const;
    const companions = tabs.map((tab) => companionIn(tab, network));
    const heard: string[][][] = tabs.map(() => []);
    companions.forEach((companion, i) => companion.live((topics) => heard[i]?.push(topics)));
    await until("both have heard", () => heard.every(({ length }) => length > 0));
    assert.deepEqual(streams(network), ["/live"]);

    heard.forEach((each) => (each.length = 0));
    tabs[0].hide(true);
    await until("the other one has a stream", () => streams(network).length === 2 && (heard[1]?.length ?? 0) > 0);
    assert.ok(network.calls.find(({ path }) => path === "/live")?.init.signal?.aborted);
    await service.control("PUT", "bot-offline");
    await until("the visible tab hears of a change", () => heard[1]?.some((topics) => topics.includes("status") && !topics.includes("team")) ?? false);
    assert.deepEqual(heard[0], []);

    tabs[0].hide(false);
    await until("everything", () => heard[0]?.at(-1)?.length === 4);
    assert.equal(streams(network).length, 2);
    for (const companion of companions) companion.close();
    await until("no stream is left", () => network.calls.every(({ path, init }) => path !== "/live" || init.signal?.aborted));
  });

  test("without locks, a channel or `tabs`, or with separate sessions, each tab has its own stream", async () => {
    for (const kind of ["locks", "channel", "tabs", "session"]) {
      const network = new Network();
      const browser = new Browser();
      const tabs = [browser.tab(), browser.tab()] as const;
      if (kind === "locks") for (const tab of tabs) tab.navigator.locks = undefined;
      if (kind === "channel") for (const tab of tabs) Reflect.deleteProperty(tab, "BroadcastChannel");
      const options: Partial<CompanionOptions> = kind === "session" ? { storage: "session" } : kind === "tabs" ? { tabs: false } : {};
      const companions = tabs.map((tab) => companionIn(tab, network, options));
      if (kind === "session") {
        await signIn(companions[0] as Companion, tabs[0], "owner");
        await signIn(companions[1] as Companion, tabs[1], "member");
      }
      const heard: string[][][] = tabs.map(() => []);
      companions.forEach((companion, i) => companion.live((topics) => heard[i]?.push(topics)));
      await until("both have heard", () => heard.every(({ length }) => length > 0));
      const path = kind === "session" ? "/me/live" : "/live";
      assert.deepEqual(streams(network), [path, path], kind);
      for (const companion of companions) companion.close();
    }
  });

  test("tokens never cross a channel, and tabs of different users don't share", async () => {
    const said: { name: string; data: unknown }[] = [];
    const network = new Network();
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab()] as const;
    for (const tab of tabs) {
      class Spy extends BroadcastChannel {
        override postMessage(data: unknown): void {
          said.push({ name: this.name, data });
          super.postMessage(data);
        }
      }
      Object.assign(tab, { BroadcastChannel: Spy });
    }
    const companions = tabs.map((tab) => companionIn(tab, network)) as [Companion, Companion];
    companions.forEach((companion) => companion.live(() => undefined));
    const tokens: string[] = [];
    for (const person of ["owner", "member"]) {
      await signIn(companions[0], tabs[0], person);
      const { token, user } = companions[0].session() as { token: string; user: { id: string } };
      tokens.push(token);
      await until("the user's stream has spoken", () => said.some(({ name }) => name.endsWith(`:live:${user.id}`)));
      await until("the other tab has the session", () => companions[1].session()?.token === token);
    }
    await companions[1].signOut();
    const all = JSON.stringify(said);
    for (const token of tokens) assert.ok(!all.includes(token));
    assert.ok(!all.includes("bcs_"));
    for (const { name, data } of said) if (Array.isArray(data) && data.includes("guilds")) assert.match(name, /:live:\d+$/);
  });

  test("when the session ends, every tab is signed out", async () => {
    const network = new Network();
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab()];
    const companions = tabs.map((tab) => companionIn(tab, network));
    await signIn(companions[0] as Companion, tabs[0] as Tab, "moderator");
    await until("both are signed in", () => companions.every((companion) => companion.session()));
    companions.forEach((companion) => companion.live(() => undefined));
    await until("the stream is open", () => network.calls.some(({ path, status }) => path === "/me/live" && status === 200));
    await service.control("POST", "end-sessions/moderator");
    await until("both are signed out", () => companions.every((companion) => !companion.session()));
    // The stream said so; no request had to fail first.
    assert.deepEqual(network.calls.filter(({ status }) => status === 401), []);
  });

  test("the session has already ended when the stream is opened", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "moderator");
    await service.control("POST", "end-sessions/moderator");
    const heard: string[][] = [];
    companion.live((topics) => heard.push(topics));
    await until("the public stream", () => heard.length > 0);
    assert.equal(companion.session(), null);
    assert.deepEqual(streams(network), ["/me/live", "/live"]);
  });

  test("`watch` reads, reads again after a change, and clears its data on sign-out", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    const states: Reading<Status>[] = [];
    const watch = companion.watch("status", companion.status, (reading) => states.push(reading));
    await until("the first reading", () => states.length > 0);
    assert.equal(states[0]?.loading, false);
    assert.notEqual(states[0]?.data?.health.bot.uptime.readable, "offline");
    await service.control("PUT", "bot-offline");
    await until("offline", () => states.at(-1)?.data?.health.bot.uptime.readable === "offline");
    for (const { init } of network.calls.filter(({ path }) => path === "/")) assert.equal(init.cache, "no-cache");
    watch.stop();

    const guilds: Reading<unknown[]>[] = [];
    const mine = companion.watch("guilds", companion.guilds, (reading) => guilds.push(reading));
    assert.equal(guilds.length, 0);
    await signIn(companion, tab, "owner");
    await until("the guilds", () => (guilds.at(-1)?.data?.length ?? 0) > 0);
    assert.deepEqual(guilds[0], { data: undefined, error: undefined, loading: true, updatedAt: undefined });
    const before = guilds.length;
    mine.reload({ fresh: true });
    assert.equal(guilds.at(-1)?.loading, true);
    assert.ok(guilds.at(-1)?.data, "what was there stays");
    await until("read again", () => guilds.length > before + 1);
    assert.equal(guilds.at(-1)?.loading, false);
    assert.ok(network.calls.some(({ path, headers }) => path === "/guilds" && headers["Cache-Control"] === "no-cache"));
    await companion.signOut();
    assert.deepEqual(guilds.at(-1), { data: undefined, error: undefined, loading: false, updatedAt: undefined });
    mine.stop();
  });

  test("`watch` reports an error together with the last good data", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    // Without locks, the stream is opened at once.
    tab.navigator.locks = undefined;
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "owner");
    const readings: Reading<unknown[]>[] = [];
    const watch = companion.watch("guilds", companion.guilds, (reading) => readings.push(reading));
    await until("the guilds", () => readings.at(-1)?.data !== undefined);
    await service.control("PUT", "guilds-fail/owner");
    watch.reload();
    await until("the error", () => readings.at(-1)?.error?.code === "idp_unavailable");
    assert.ok(readings.at(-1)?.data);
    await service.control("DELETE");
    watch.reload();
    await until("good again", () => readings.at(-1)?.error === undefined);
    // After `stop`, it neither reads nor reports anything.
    watch.stop();
    const [told, called] = [readings.length, network.calls.length];
    watch.reload();
    await companion.stats();
    assert.equal(readings.length, told);
    assert.equal(network.calls.length, called + 1);
  });

  test("`watch` reads once when the page opens, not again because the stream has opened", async (t) => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "owner");
    // The service has its list now, so the stream doesn't say that it has changed.
    await companion.guilds();
    // However slow this machine is, no first read gives up waiting for the stream, which it does after half a second.
    const { setTimeout } = globalThis;
    let waits = 0;
    t.mock.method(globalThis, "setTimeout", (run: (...rest: unknown[]) => void, ms?: number, ...rest: unknown[]) => {
      if (ms !== 500) return setTimeout(run, ms, ...rest);
      waits += 1;
      return setTimeout(run, 2 ** 31 - 1, ...rest);
    });
    const heard: string[][] = [];
    const status: Reading<Status>[] = [];
    const guilds: Reading<unknown[]>[] = [];
    companion.live((topics) => heard.push(topics));
    companion.watch("status", companion.status, (reading) => status.push(reading), { jitter: 0 });
    companion.watch("guilds", companion.guilds, (reading) => guilds.push(reading), { jitter: 0 });
    await until("the stream and the data are there", () => heard.length > 0 && status.length > 0 && guilds.length > 0);
    assert.ok(waits >= 2);
    assert.deepEqual([network.count("GET", "/"), network.count("GET", "/guilds")], [1, 2]);
    await service.control("PUT", "bot-offline");
    await until("offline", () => status.at(-1)?.data?.health.bot.uptime.readable === "offline");
    assert.equal(network.count("GET", "/guilds"), 2);
  });

  test("`watch` retries a failed read until it works", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    let failing = 0;
    const fetch = (input: string, init?: RequestInit) => {
      if (!failing || !input.endsWith("/stats")) return network.fetch(input, init);
      failing -= 1;
      return failing % 2 ? Promise.reject(new TypeError("offline")) : Promise.resolve(new Response("<html>", { status: 502 }));
    };
    const companion = companionIn(tab, network, { fetch });
    failing = 2;
    const readings: Reading<Stats>[] = [];
    companion.watch("stats", companion.stats, (reading) => readings.push(reading), { jitter: 0 });
    await until("it works", () => readings.at(-1)?.data !== undefined);
    assert.deepEqual(readings.slice(0, 2).map(({ error }) => error?.code), ["network", "bad_answer"]);
    assert.equal(readings.at(-1)?.error, undefined);
    // What would fail again is not repeated.
    const heard: string[][] = [];
    companion.live((topics) => heard.push(topics));
    await signIn(companion, tab, "owner");
    await until("the user's stream is open", () => heard.some((topics) => topics.includes("me")));
    const missing: Reading<unknown>[] = [];
    // With a topic that doesn't change here.
    companion.watch("team", (options) => companion.guild("1", options), (reading) => missing.push(reading), { jitter: 0 });
    await until("the guild doesn't exist", () => missing.at(-1)?.error?.code === "guild_not_found");
    const before = network.count("GET", "/guilds/1");
    failing = 1;
    const more: Reading<Stats>[] = [];
    companion.watch("stats", companion.stats, (reading) => more.push(reading), { jitter: 0 });
    await until("a retry of something else", () => more.at(-1)?.data !== undefined);
    assert.equal(network.count("GET", "/guilds/1"), before);
  });

  test("after `Retry-After`, a change doesn't make a watch come back earlier", async () => {
    const network = new Network();
    let isRefused = true;
    let reads = 0;
    const headers = { "Retry-After": "3000000000" };
    const fetch = (input: string, init?: RequestInit) => {
      if (!input.endsWith("/stats")) return network.fetch(input, init);
      reads += 1;
      return isRefused ? Promise.resolve(new Response("{}", { status: 429, headers })) : Promise.reject(new TypeError("offline"));
    };
    const companion = companionIn(new Browser().tab(), network, { fetch });
    let changes = 0;
    companion.live((topics) => (changes += Number(topics.includes("status"))));
    let failures = 0;
    const watch = companion.watch("status", companion.stats, ({ error, loading }) => error && !loading && (failures += 1), { jitter: 0 });
    await until("it is refused", () => failures === 1);
    for (const method of ["PUT", "DELETE"] as const) {
      const before = changes;
      await service.control(method, "bot-offline");
      await until("it hears of the change", () => changes > before);
    }
    assert.equal(reads, 1);
    // Only the page's user is not kept waiting.
    isRefused = false;
    watch.reload();
    await until("it is read", () => failures === 2);
    assert.equal(reads, 2);
    companion.close();
  });

  test("reading again while nobody is signed in does nothing", async () => {
    const companion = companionIn(new Browser().tab(), new Network());
    const watch = companion.watch("guilds", companion.guilds, () => assert.fail("told"));
    watch.reload();
    watch.stop();
  });

  test("waiting for a retry ends when the page is seen again or its network is back", async () => {
    const tab = new Browser().tab();
    const page = tab as unknown as Window;
    for (const name of ["online", "pageshow", "visibilitychange"]) {
      const wait = sleep(2 ** 31 - 1, undefined, page);
      tab.events.dispatchEvent(new Event(name));
      await wait;
    }
    const stop = new AbortController();
    const wait = sleep(2 ** 31 - 1, stop.signal, page);
    let isOver = false;
    void wait.then(
      () => (isOver = true),
      () => undefined,
    );
    tab.hide(true);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isOver, false, "a page that is hidden is not seen");
    stop.abort(new Error("stopped"));
    await assert.rejects(wait, /stopped/);
    await assert.rejects(sleep(0, stop.signal), /stopped/);
  });

  test("the stream is opened again when the network is back", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    const heard: string[][] = [];
    companion.live((topics) => heard.push(topics));
    await until("open", () => heard.length === 1);
    tab.events.dispatchEvent(new Event("online"));
    tab.events.dispatchEvent(new Event("online"));
    await until("open again", () => heard.length === 2);
    assert.equal(streams(network).length, 2);
  });

  // Runs last, because it restarts the service.
  test("reopens a lost stream and misses nothing", async () => {
    const network = new Network();
    const companion = companionIn(new Browser().tab(), network);
    const heard: string[][] = [];
    const readings: Reading<Stats>[] = [];
    companion.live((topics) => heard.push(topics));
    companion.watch("stats", companion.stats, (reading) => readings.push(reading), { jitter: 0 });
    await until("the stream is open", () => heard.length > 0 && readings.length > 0);
    await service.kill();
    readings.length = 0;
    heard.length = 0;
    await service.start();
    await until("open again, with every topic", () => heard.some((topics) => topics.length === 4));
    await until("read again", () => readings.some(({ data, error }) => data && !error));
    assert.ok(streams(network).length >= 2);
  });
});

// Live streams, shared by tabs and reopened when lost, with the real service.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { type Companion, type CompanionOptions, type Reading, type Stats, type Status, createCompanion } from "../src/index.js";
import { shareTabs } from "../src/tabs.js";
import { Browser, Network, Service, type Tab, leave, needsService, uncaught, until } from "./support.js";

const service = new Service();
const open: Companion[] = [];

function companionIn(tab: Tab, network: Network, options: Partial<CompanionOptions> = {}): Companion {
  tab.enter();
  const companion = createCompanion({ url: service.url, fetch: network.fetch, tabs: shareTabs, ...options });
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
      companion.live(() => assert.fail("gone"), { signal: AbortSignal.abort() });
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

  test("another tab takes over from a leading one that the browser has suspended", async () => {
    const network = new Network();
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab(), browser.tab()] as const;
    const companions = tabs.map((tab) => companionIn(tab, network));
    const heard: string[][][] = tabs.map(() => []);
    companions.forEach((companion, i) => companion.live((topics) => heard[i]?.push(topics)));
    await until("all have heard", () => heard.every(({ length }) => length > 0));
    const [leader, first] = tabs;
    await until("each has a timer", () => tabs.every(({ timers }) => timers.size === 1));

    // The leading tab says that it's alive, and the others wait for that again.
    const before = [...first.timers.keys()];
    for (const run of [...leader.timers.values()]) run();
    await until("the watchdog starts again", () => first.timers.size === 1 && !first.timers.has(before[0] as object));
    assert.deepEqual(streams(network), ["/live"]);

    // Now it's silent.
    heard.forEach((each) => (each.length = 0));
    for (const run of [...first.timers.values()]) run();
    await until("another tab has a stream", () => streams(network).length === 2);
    await until("all hear of everything, the suspended one too", () => heard.every((each) => each.length > 0));
    heard.forEach((each) => (each.length = 0));
    await service.control("PUT", "bot-offline");
    await until("all hear of a change", () => heard.every((each) => each.some((topics) => topics.includes("status"))));
    assert.deepEqual(streams(network), ["/live", "/live"]);
    // The new leading tab is closed, and one of the others leads.
    companions[1]?.close();
    await until("another stream", () => streams(network).length === 3);
    for (const companion of companions) companion.close();
    await until("no timer is left", () => tabs.every(({ timers }) => timers.size === 0));
  });

  test("without locks, a channel or `tabs`, or with separate sessions, each tab has its own stream", async () => {
    for (const kind of ["locks", "channel", "tabs", "session"]) {
      const network = new Network();
      const browser = new Browser();
      const tabs = [browser.tab(), browser.tab()] as const;
      if (kind === "locks") for (const tab of tabs) tab.navigator.locks = undefined;
      if (kind === "channel") for (const tab of tabs) Reflect.deleteProperty(tab, "BroadcastChannel");
      const options: Partial<CompanionOptions> = kind === "session" ? { storage: "session" } : kind === "tabs" ? { tabs: undefined } : {};
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
    await until("read again", () => guilds.length > before);
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
    companion.watch("stats", companion.stats, () => assert.fail("stopped before"), { signal: AbortSignal.abort() }).reload();
    await companion.stats();
    assert.equal(readings.length, told);
    assert.equal(network.calls.length, called + 1);
  });

  // Runs last, because it restarts the service.
  test("reopens a lost stream and misses nothing", async () => {
    const network = new Network();
    const companion = companionIn(new Browser().tab(), network);
    const heard: string[][] = [];
    const readings: Reading<Stats>[] = [];
    companion.live((topics) => heard.push(topics));
    companion.watch("stats", companion.stats, (reading) => readings.push(reading), { jitter: 0 });
    await until("the stream is open", () => heard.length > 0 && readings.length > 1);
    await service.kill();
    readings.length = 0;
    heard.length = 0;
    await service.start();
    await until("open again, with every topic", () => heard.some((topics) => topics.length === 4));
    await until("read again", () => readings.some(({ data, error }) => data && !error));
    assert.ok(streams(network).length >= 2);
  });
});

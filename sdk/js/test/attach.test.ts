// What developers see when they attach the SDK: errors for a wrong configuration and wrong calls, and the log.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type FeedbackEntry, attach } from "../src/index.js";
import { probableKey } from "../src/grants.js";
import { SimulatedClock } from "./clock.js";
import { FakeClient, Log, Service, Wire, guildId } from "./support.js";

const URL_GIVEN = "https://companion.example.org/base";
const KEY = "bck_abcdefghijklmnop";

const WRONG: [name: string, configured: { url?: string; key?: string }, said: RegExp][] = [
  ["no address", { url: "" }, /the option url is not set/],
  ["an address without a scheme", { url: "companion.example.org:8080" }, /the option url has no scheme: begin it with https:/],
  ["an address with another scheme", { url: "ftp://companion.example.org" }, /the option url must begin with https:/],
  ["a line break after the address", { url: `${URL_GIVEN}\n` }, /the option url .* line break: remove it/],
  ["no host", { url: "https://" }, /the option url is not an address/],
  ["a password in the address", { url: "https://me:secret@companion.example.org" }, /the option url contains a username or password/],
  ["a query", { url: `${URL_GIVEN}?a=b` }, /the option url has a part after \?/],
  ["the two mixed up", { url: KEY, key: URL_GIVEN }, /the option url contains a key/],
  ["no key", { key: "" }, /the option key is not set: create a key with `bot-companion key create/],
  ["a line break after the key", { key: `${KEY}\n` }, /the option key has a line break in it: remove it/],
  ["a space before the key", { key: ` ${KEY}` }, /the option key has a space in it: remove it/],
  ["Discord's token", { key: "MTA.abc.def" }, /the option key is not a bot key/],
];

for (const [name, configured, said] of WRONG) {
  test(`${name}: said with the remedy, and nothing is sent`, async (context) => {
    const fetched = context.mock.method(globalThis, "fetch", () => Promise.reject(new Error("no network here")));
    const log = new Log();
    const client = new FakeClient(1);
    const companion = attach(client, { logger: log, url: URL_GIVEN, key: KEY, ...configured });
    client.ready();
    const { delivered, reason } = await companion.feedback({} as FeedbackEntry);
    await companion.close();
    assert.equal(log.lines.length, 1);
    assert.match(log.lines[0] ?? "", /^error .*not started/);
    assert.match(log.lines[0] ?? "", said);
    assert.equal(log.lines.join().includes("bck_abc") || log.lines.join().includes("MTA") || log.lines.join().includes("secret"), false);
    assert.equal(delivered, false);
    assert.match(reason ?? "", said);
    assert.equal(companion.status().state, "closed");
    assert.equal(fetched.mock.callCount(), 0);
  });
}

test("a variable is named as what it is", (context) => {
  const log = new Log();
  const before = { ...process.env };
  context.after(() => {
    process.env = before;
  });
  process.env["COMPANION_URL"] = URL_GIVEN;
  process.env["COMPANION_BOT_KEY"] = `${KEY}\r\n`;
  attach(new FakeClient(), { logger: log });
  assert.equal(log.count("COMPANION_BOT_KEY has a line break in it"), 1);
  process.env["COMPANION_URL"] = "localhost:8080";
  attach(new FakeClient(), { logger: log });
  assert.equal(log.count("COMPANION_URL has no scheme"), 1);
});

test("what is no client is said, and nothing throws", async () => {
  const log = new Log();
  for (const client of [undefined, null, {}, "client"]) {
    const companion = attach(client as never, { logger: log, url: URL_GIVEN, key: KEY });
    assert.equal((await companion.feedback({} as FeedbackEntry)).delivered, false);
  }
  assert.equal(log.count("the first argument of attach must be a discord.js client"), 4);
  attach(new FakeClient(), null as never);
});

function world(options = {}) {
  const client = new FakeClient(2);
  const clock = new SimulatedClock();
  const service = new Service();
  const wire = new Wire(service);
  const log = new Log();
  const companion = attach(client, { clock, transport: wire.transport, logger: log, sigterm: false, ...options });
  return { client, clock, service, wire, log, companion };
}

test("attached a second time: the same companion, and a warning that names what is ignored", () => {
  const { client, companion, log } = world();
  assert.equal(attach(client), companion);
  assert.equal(log.lines.length, 0);
  assert.equal(attach(client, { grants: () => ({}), setup: () => true }), companion);
  assert.equal(log.count("ignoring grants, setup from this call: pass all options in the first call"), 1);
});

test("changed() takes a guild or its id; what is neither is said, and is not everything", async () => {
  let isSetup = false;
  const { client, clock, service, log, companion } = world({ setup: () => isSetup });
  client.ready();
  await clock.pass(1_000);
  isSetup = true;
  companion.changed(client.guilds.cache.get(guildId(1)) as { id: string });
  companion.changed(guildId(2));
  await clock.pass(1_000);
  assert.equal(service.guilds.get(guildId(1))?.["setup"], true);
  assert.equal(service.guilds.get(guildId(2))?.["setup"], true);
  const requests = service.calls.length;
  companion.changed(null as never);
  companion.changed(undefined as never);
  companion.changed("Guild 1");
  companion.changed(1.5 as never);
  await clock.pass(1_000);
  assert.equal(service.calls.length, requests);
  assert.equal(log.count("changed() was given no guild"), 1);
  assert.equal(log.count("changed() was given something that is neither a guild nor an ID"), 1);
  companion.changed();
  await clock.pass(1_000);
  assert.equal(service.of("/bot/shards").length, 2);
});

test("ids may be BigInts everywhere, and nothing blames the package", async () => {
  const guild = BigInt(guildId(1));
  let isSetup = false;
  const { client, clock, service, log, companion } = world({
    setup: () => isSetup,
    grants: () => new Map([[50n, ["MOD"]]]),
    subscriptions: () => [{ userid: 20n, slots: 1, guilds: [guild], active_until: null }],
    team: () => [{ discord_id: 20n, username: "u", role: "Founder", color: "#5865F2", category: "lead", position: 1 }],
  });
  client.ready();
  await clock.pass(1_000);
  assert.deepEqual(service.guilds.get(guildId(1))?.["grants"], { 50: ["MOD"] });
  assert.deepEqual(service.subscriptions, [{ userid: "20", slots: 1, guilds: [guildId(1)], active_until: null }]);
  assert.equal(service.team[0]?.["discord_id"], "20");
  isSetup = true;
  companion.changed(guild);
  const sent = companion.feedback({ id: 7n, feedback: "Fine", rating: 5, timestamp: 1, submitter: { id: 20n, username: "u" } });
  await clock.pass(1_000);
  assert.equal(service.guilds.get(guildId(1))?.["setup"], true);
  assert.deepEqual(await sent, { delivered: true, reason: null });
  assert.equal(service.feedback.get("7")?.["submitter"]["id"], "20");
  const gone = companion.feedbackGone(7n);
  await clock.pass(1_000);
  assert.equal((await gone).delivered, true);
  assert.deepEqual(log.lines.filter((line) => !line.startsWith("info")), []);
});

test("grants may be a Map; what only looks like one is no answer", async () => {
  class Collection extends Map<unknown, unknown> {}
  let answer: unknown = new Collection([["50", new Set(["MOD"])], [{ id: "51" }, ["ADMIN"]]]);
  const { client, clock, service, companion } = world({ grants: () => answer });
  client.ready();
  await clock.pass(1_000);
  const grants = { 50: ["MOD"], 51: ["ADMIN"] };
  assert.deepEqual(service.guilds.get(guildId(1))?.["grants"], grants);
  let failures = 0;
  for (const slip of [new Set(["50"]), new Date(0), new Map([["50", "MOD"]]), new Map([["moderators", ["MOD"]]]), new Map([[undefined, ["MOD"]]]), () => ({}), true]) {
    answer = slip;
    companion.changed(guildId(1));
    await clock.pass(1_000);
    assert.deepEqual(service.guilds.get(guildId(1))?.["grants"], grants, String(slip));
    assert.equal(companion.status().counters.callbackFailures, (failures += 1), String(slip));
  }
  answer = new Map();
  companion.changed(guildId(1));
  await clock.pass(1_000);
  assert.deepEqual(service.guilds.get(guildId(1))?.["grants"], {}, "an empty one is an answer");
});

test("a time that JSON would turn into no end does not give premium for ever", async () => {
  let active_until: unknown = 1_900_000_000;
  const { client, clock, service, companion } = world({ subscriptions: () => [{ userid: "20", slots: 1, guilds: [], active_until }] });
  client.ready();
  await clock.pass(1_000);
  for (const slip of [NaN, Infinity, undefined, new Date(NaN), "2030-01-01"]) {
    active_until = slip;
    companion.subscriptionsChanged();
    await clock.pass(1_000);
    assert.deepEqual(service.subscriptions, [{ userid: "20", slots: 1, guilds: [], active_until: 1_900_000_000 }]);
  }
  active_until = new Date(2_000_000_000_500);
  companion.subscriptionsChanged();
  await clock.pass(1_000);
  assert.equal(service.subscriptions[0]?.["active_until"], 2_000_000_000.5);
});

for (const value of [0, -1, NaN, Infinity, 0.001, "10", null]) {
  test(`limits.listingRate ${JSON.stringify(value)} (${typeof value}) is refused with a message`, () => {
    const { companion, log } = world({ limits: { listingRate: value } });
    assert.deepEqual(log.lines, ["error [bot-companion] not started: the option limits.listingRate must be a number of at least 0.01"]);
    assert.equal(companion.status().state, "closed");
  });
}

test("a limit that is undefined is the default, and one that does not exist is said", async () => {
  const { client, clock, service, log } = world({ limits: { gatherTime: undefined, listing_rate: 5 } });
  assert.deepEqual(log.lines, ["warn [bot-companion] the option limits has no listing_rate: it is ignored"]);
  client.ready();
  await clock.pass(1_000);
  assert.equal(service.guilds.size, 2);
});

test("the default logger prints the outage, not every try", async (context) => {
  const said = { debug: 0, info: 0, warn: 0, error: 0 };
  for (const level of ["debug", "info", "warn", "error"] as const) context.mock.method(console, level, () => void (said[level] += 1));
  const { client, clock, wire } = world({ logger: undefined });
  client.ready();
  await clock.pass(1_000);
  wire.isReachable = false;
  await clock.pass(600_000);
  wire.isReachable = true;
  await clock.pass(120_000);
  assert.deepEqual(said, { debug: 0, info: 2, warn: 1, error: 0 });
});

test("events and status tell the bot how it is going", async () => {
  const { client, clock, wire, companion } = world();
  let synced = 0;
  const errors: string[] = [];
  const stop = companion.on("synced", () => (synced += 1));
  companion.on("error", ({ level, message }) => errors.push(`${level} ${message}`));
  assert.equal(companion.status().state, "starting");
  client.ready();
  await clock.pass(1_000);
  assert.equal(synced, 1);
  assert.equal(companion.status().state, "synced");
  wire.isReachable = false;
  await clock.pass(60_000);
  assert.equal(errors.length, 1);
  assert.match(errors[0] ?? "", /^warn the service cannot be reached/);
  stop();
  wire.isReachable = true;
  await clock.pass(120_000);
  assert.equal(synced, 1);
  await companion.close();
  assert.equal(companion.status().state, "closed");
  assert.equal(client.listenerCount("raw"), 0);
});

test("what was probably meant", () => {
  const meant = Object.fromEntries(
    ["ADMN", "admin", "Moderator", "session starter", "ERLC_STAF", "ERLC-MANAGER", "OWNER", "x"].map((key) => [key, probableKey(key)]),
  );
  assert.deepEqual(meant, {
    ADMN: "ADMIN", admin: "ADMIN", Moderator: "MOD", "session starter": "SESSION_STARTER", ERLC_STAF: "ERLC_STAFF",
    "ERLC-MANAGER": "ERLC_MANAGER", OWNER: null, x: null,
  });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { attach, type FeedbackEntry, type Options } from "../src/index.js";
import { BOUNDS, Feed, retryAfter, type Source } from "../src/feed.js";
import { SafeLogger } from "../src/logger.js";
import { FakeClient, FakeClock, FakeWire, type Json, Log, Service, fakeGuild, fakeMember, guildId, rest } from "./support.js";

function world(client = new FakeClient(), options: Options<ReturnType<typeof fakeGuild>> = {}) {
  const clock = new FakeClock();
  const service = new Service();
  const wire = new FakeWire(service);
  const log = new Log();
  const companion = attach(client, { clock, transport: wire.transport, logger: log, ...options });
  return { client, clock, service, wire, log, companion, pass: (ms: number) => clock.pass(ms, () => rest(clock, wire)) };
}

function batches(service: Service) {
  return service.of("/bot/events").filter(({ lines }) => lines.length > 0);
}

function entry(n: number): FeedbackEntry {
  const submitter = { id: "5", username: "marlow", name: "Marlow", avatar: "https://example.org/a.png" };
  return { id: `f${n}`, feedback: "Fine", rating: 5, timestamp: 1_900_000_000, submitter };
}

test("a ready shard is introduced by a heartbeat and sent whole", async () => {
  const { client, service, pass } = world(new FakeClient(2));
  client.add(fakeGuild(1), fakeGuild(2), fakeGuild(3));
  (client.guilds.cache.get(guildId(3)) as Json)["available"] = false;
  client.ready();
  await pass(1_000);
  assert.equal(service.calls[0]?.path, "/bot/heartbeat");
  assert.deepEqual(service.of("/bot/shards").map(({ path }) => path), ["/bot/shards/2/0/guilds", "/bot/shards/2/1/guilds"]);
  assert.deepEqual(service.of("/bot/shards/2/1")[0]?.lines.at(1), { id: guildId(3), unavailable: true });
  assert.deepEqual([...service.guilds.keys()].sort(), [guildId(1), guildId(2)].sort());
  assert.deepEqual(service.guilds.get(guildId(1)), {
    id: guildId(1), name: "Guild 1", icon: null, owner: "77", members: 0, setup: false, linked: false, grants: {}, staff: {},
  });
});

test("only the process's own shards are sent", async () => {
  const { client, service, pass } = world(new FakeClient(4, [2, 3]));
  client.add(fakeGuild(2), fakeGuild(3), fakeGuild(6));
  client.ready();
  await pass(16_000);
  assert.deepEqual(service.of("/bot/shards").map(({ path }) => path), ["/bot/shards/4/2/guilds", "/bot/shards/4/3/guilds"]);
  assert.equal(service.guilds.size, 3);
  assert.deepEqual(service.heartbeats.at(-1)?.["shards"].map((shard: Json) => shard["id"]), [2, 3]);
  assert.equal(service.heartbeats.at(-1)?.["shard_count"], 4);
});

test("a shard that does not know its latency says null, not -1", async () => {
  const { client, clock, service, pass } = world();
  client.ready();
  await pass(15_000);
  assert.deepEqual(service.heartbeats.at(-1)?.["shards"], [{ id: 0, sent_ms_ago: null, acknowledged_ms_ago: null, latency: null }]);
  client.ws.shards.set(0, { id: 0, ping: 40, lastPingTimestamp: clock.now() });
  await pass(15_000);
  const beat = service.heartbeats.at(-1) as Json;
  assert.deepEqual(beat["shards"], [{ id: 0, sent_ms_ago: 15_000, acknowledged_ms_ago: 14_960, latency: 40 }]);
  assert.ok(beat["memory"] > 1_000_000);
  assert.ok(beat["started_at"] < clock.now() / 1_000);
});

test("changes follow in order and one batch", async () => {
  const { client, service, pass } = world();
  client.add(fakeGuild(1));
  client.ready();
  await pass(1_000);
  client.add(fakeGuild(2));
  client.emit("guildCreate", client.guilds.cache.get(guildId(2)));
  const first = client.guilds.cache.get(guildId(1)) as Json;
  first["name"] = "Renamed";
  client.emit("guildUpdate", first, first);
  client.guilds.cache.delete(guildId(1));
  client.emit("guildDelete", first);
  await pass(1_000);
  assert.equal(service.of("/bot/events").length, 1);
  assert.deepEqual([...service.guilds.keys()], [guildId(2)]);
  client.emit("guildUnavailable", client.guilds.cache.get(guildId(2)));
  client.emit("raw", { t: "GUILD_DELETE", d: { id: guildId(2), unavailable: true } }, 0);
  await pass(60_000);
  assert.deepEqual([...service.guilds.keys()], [guildId(2)], "an outage is not a departure");
});

test("a guild that was left while the bot was away is not sent though the library still keeps it", async () => {
  const { client, service, pass } = world();
  client.add(fakeGuild(1), fakeGuild(2));
  client.ready();
  await pass(1_000);
  assert.equal(service.guilds.size, 2);
  client.emit("raw", { t: "READY", d: { guilds: [{ id: guildId(2) }, { id: guildId(3) }] } }, 0);
  client.ready();
  await pass(1_000);
  assert.deepEqual([...service.guilds.keys()], [guildId(2)]);
  assert.deepEqual(service.of("/bot/shards").at(-1)?.lines, [
    { ...service.guilds.get(guildId(2)) }, { id: guildId(3), unavailable: true }, { end: 2 },
  ]);
});

test("staff are those with a granting role, and follow their roles", async () => {
  const client = new FakeClient();
  const guild = fakeGuild(1);
  guild.memberCount = 2;
  guild.members.cache.set("10", fakeMember(guild, "10", ["50", "51"]));
  guild.members.cache.set("11", fakeMember(guild, "11", ["51"]));
  client.add(guild);
  let grants: Json = { 50: ["MOD"] };
  const { service, pass, companion, log } = world(client, {
    grants: () => grants, setup: async () => true, linked: () => true,
  });
  client.ready();
  await pass(1_000);
  const sent = (): Json => service.guilds.get(guild.id) as Json;
  assert.deepEqual(sent()["staff"], { 10: ["50"] });
  assert.deepEqual([sent()["setup"], sent()["linked"], sent()["grants"]], [true, true, { 50: ["MOD"] }]);

  client.emit("raw", { t: "GUILD_MEMBER_UPDATE", d: { guild_id: guild.id, user: { id: "12" }, roles: ["50", "9"] } }, 0);
  client.emit("guildMemberUpdate", {}, fakeMember(guild, "10", ["51"]));
  await pass(1_000);
  assert.deepEqual(sent()["staff"], { 12: ["50"] });

  grants = { 50: ["MOD"], 51: ["ADMIN", "FLY"] };
  companion.changed(guild.id);
  await pass(1_000);
  assert.deepEqual(sent()["grants"], { 50: ["MOD"], 51: ["ADMIN"] });
  assert.equal(log.count("FLY"), 1);
  assert.deepEqual(Object.keys(sent()["staff"]).sort(), ["10", "11", "12"]);

  client.emit("raw", { t: "GUILD_MEMBER_REMOVE", d: { guild_id: guild.id, user: { id: "11" } } }, 0);
  client.emit("guildMemberRemove", fakeMember(guild, "11", []));
  await pass(1_000);
  assert.deepEqual(service.membersGone, [`${guild.id}/11`]);
  client.emit("roleDelete", { id: "50", guild });
  await pass(1_000);
  assert.equal(sent()["staff"][12], undefined);
});

test("members that the library never met are listed; until then the guild's staff stay", async () => {
  const client = new FakeClient();
  const guild = { ...fakeGuild(1), memberCount: 1_500 };
  let pages: (() => void)[] = [];
  const asked: Json[] = [];
  Object.assign(guild.members, {
    list: (query: Json) =>
      new Promise((resolve) => {
        asked.push(query);
        const from = Number(query["after"]);
        const ids = Array.from({ length: Math.min(1_000, 1_500 - from) }, (_, index) => String(from + index + 1));
        pages.push(() => resolve(new Map(ids.map((id) => [id, fakeMember(guild, id, Number(id) % 500 ? [] : ["50"])]))));
      }),
  });
  client.add(guild);
  const { service, pass } = world(client, { grants: () => ({ 50: ["MOD"] }) });
  service.guilds.set(guild.id, { id: guild.id, name: "Old", staff: { 500: ["50"] }, grants: { 50: ["MOD"] } });
  client.ready();
  await pass(1_000);
  assert.equal(service.guilds.get(guild.id)?.["name"], "Guild 1");
  assert.deepEqual(service.guilds.get(guild.id)?.["staff"], { 500: ["50"] });
  client.emit("raw", { t: "GUILD_MEMBER_REMOVE", d: { guild_id: guild.id, user: { id: "1000" } } }, 0);
  for (let page = 0; page < 2; page += 1) {
    pages.forEach((resolve) => resolve());
    pages = [];
    await pass(1_000);
  }
  assert.deepEqual(asked.map((query) => [query["after"], query["cache"]]), [["0", false], ["1000", false]]);
  assert.deepEqual(service.guilds.get(guild.id)?.["staff"], { 500: ["50"], 1500: ["50"] });
});

test("a member count alone is sent at most once a minute a guild", async () => {
  const { client, service, pass } = world();
  const guild = fakeGuild(1);
  client.add(guild);
  client.ready();
  await pass(1_000);
  for (let second = 0; second < 600; second += 1) {
    guild.memberCount += 1;
    client.emit("guildMemberAdd", fakeMember(guild, String(1_000 + second), []));
    await pass(1_000);
  }
  const sent = batches(service);
  assert.ok(sent.length >= 8 && sent.length <= 10, `${sent.length} times in ten minutes`);
  await pass(120_000);
  assert.equal(service.guilds.get(guild.id)?.["members"], 600);
});

test("an answer that got lost: the repeat has the same number and is applied once", async () => {
  const { client, service, wire, companion, pass } = world();
  client.add(fakeGuild(1));
  client.ready();
  await pass(1_000);
  wire.loseAnswers = 1;
  companion.feedback(entry(1));
  await pass(300);
  companion.feedback(entry(2));
  await pass(5_000);
  assert.deepEqual(batches(service).map(({ sequence, lines }) => [sequence, lines.length]), [[2, 1], [2, 1], [3, 1]]);
  assert.deepEqual([...service.next.values()], [4]);
});

test("a service that lost everything gets everything anew, feedback included", async () => {
  const { client, service, companion, pass } = world(new FakeClient(2), {
    subscriptions: () => [{ userid: "5", slots: 1, guilds: [guildId(1)], active_until: null }],
    team: async () => [{ discord_id: "5", username: "m", name: "M", avatar: "", role: "Lead", color: "#000000", category: "lead", position: 1 }],
  });
  client.add(fakeGuild(1), fakeGuild(2));
  client.ready();
  await pass(1_000);
  companion.feedback(entry(1));
  await pass(1_000);
  service.forget();
  companion.feedback(entry(2));
  await pass(5_000);
  assert.equal(service.guilds.size, 2);
  assert.equal(service.subscriptions.length, 1);
  assert.equal(service.team.length, 1);
  assert.deepEqual([...service.feedback.keys()], ["f2"]);
});

test("a service that comes back empty is noticed though nothing happens", async () => {
  const { client, service, wire, pass } = world();
  client.add(fakeGuild(1));
  client.ready();
  await pass(1_000);
  wire.reachable = false;
  await pass(60_000);
  service.forget();
  wire.reachable = true;
  await pass(60_000);
  assert.equal(service.guilds.size, 1);
});

test("an overtaken snapshot is sent again behind the number that the service names", async () => {
  const { client, service, pass } = world();
  client.add(fakeGuild(1));
  service.before = (call) => {
    if (call.instance && !service.next.has(call.instance)) service.next.set(call.instance, 7);
    return undefined;
  };
  client.ready();
  await pass(1_000);
  assert.deepEqual(service.of("/bot/shards").map(({ sequence }) => sequence), [2, 7]);
  assert.equal(service.guilds.size, 1);
});

test("a service that asks for everything again and again is not flooded", async () => {
  const { client, service, companion, pass } = world();
  client.add(fakeGuild(1));
  client.ready();
  await pass(1_000);
  service.before = ({ path }) => (path === "/bot/events" ? { status: 409, data: { error: "resync_required", next: 1 } } : undefined);
  companion.feedback(entry(1));
  await pass(600_000);
  assert.ok(service.of("/bot/events").length < 60, `${service.of("/bot/events").length} times in ten minutes`);
  service.before = () => undefined;
  await pass(120_000);
  assert.equal(service.feedback.size, 1);
});

test("a refused event is dropped and the others arrive", async () => {
  const { client, service, companion, log, pass } = world();
  client.ready();
  await pass(1_000);
  service.refuse = (line) => (line["id"] === "f2" || line["id"] === "f3" ? "rating" : undefined);
  for (let n = 1; n <= 4; n += 1) companion.feedback(entry(n));
  await pass(5_000);
  assert.deepEqual([...service.feedback.keys()], ["f1", "f4"]);
  assert.equal(log.count("is dropped: rating"), 2);
  companion.feedback(entry(5));
  await pass(5_000);
  assert.equal(service.feedback.size, 3);
});

test("a refused guild stays as it is stored, until it changes", async () => {
  const { client, service, log, pass } = world();
  client.add(fakeGuild(1), fakeGuild(2, "bad"), fakeGuild(3));
  service.guilds.set(guildId(2), { id: guildId(2), name: "as before" });
  service.refuse = (line) => (line["name"] === "bad" ? "name" : undefined);
  client.ready();
  await pass(1_000);
  assert.deepEqual([...service.guilds.values()].map((guild) => guild["name"]), ["Guild 1", "as before", "Guild 3"]);
  assert.equal(log.count(`refuses guild ${guildId(2)}`), 1);
  const guild = client.guilds.cache.get(guildId(2)) as Json;
  guild["name"] = "good";
  client.emit("guildUpdate", guild, guild);
  await pass(1_000);
  assert.equal(service.guilds.get(guildId(2))?.["name"], "good");
});

test("a refused subscription is left out", async () => {
  const subscriptions = ["1", "2", "3"].map((userid) => ({ userid, slots: 1, guilds: [], active_until: 5 }));
  const { client, service, companion, pass } = world(new FakeClient(), { subscriptions: () => subscriptions });
  service.refuse = (line) => (line["userid"] === "2" ? "no" : undefined);
  client.ready();
  await pass(1_000);
  assert.deepEqual(service.subscriptions.map((line) => line["userid"]), ["1", "3"]);
  const calls = service.of("/bot/subscriptions").length;
  await pass(900_000);
  assert.equal(service.of("/bot/subscriptions").length, calls, "unchanged, so not sent again");
  subscriptions.pop();
  companion.changed();
  await pass(1_000);
  assert.deepEqual(service.subscriptions.map((line) => line["userid"]), ["1"]);
});

test("Retry-After is obeyed", async () => {
  const { client, service, log, pass } = world();
  client.add(fakeGuild(1));
  service.before = ({ path }) => (path.startsWith("/bot/shards") ? { status: 429, retryAfter: "40" } : undefined);
  client.ready();
  await pass(39_000);
  assert.equal(service.of("/bot/shards").length, 1);
  service.before = () => undefined;
  await pass(3_000);
  assert.equal(service.of("/bot/shards").length, 2);
  assert.equal(service.guilds.size, 1);
  assert.equal(log.count("cannot be reached"), 0, "being asked to wait is no outage");
  assert.equal(retryAfter("1.5", 0), 1_500);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:09 GMT", 4_000), 5_000);
  assert.equal(retryAfter("soon", 0), null);
  assert.equal(retryAfter("-3", 0), 0);
});

test("without an address or a key it says so and does nothing", () => {
  const log = new Log();
  const companion = attach(new FakeClient(), { logger: log, url: "", key: "" });
  assert.equal(log.count("set COMPANION_URL and COMPANION_BOT_KEY"), 1);
  assert.equal(companion.feedback(entry(1)), false);
  attach(new FakeClient(), { logger: log, url: "ftp://example.org", key: "k" });
  assert.equal(log.count("not started"), 2);
});

test("an hour without the service: bounded memory, a quiet log, and everything is there afterwards", async () => {
  const busy = new FakeClient();
  for (let n = 1; n <= 300; n += 1) busy.add(fakeGuild(n));
  const one = world(busy, { bounds: { changes: 100, feedback: 20 } });
  busy.ready();
  await one.pass(1_000);
  assert.equal(one.service.guilds.size, 300);
  one.wire.reachable = false;
  const timers = one.clock.timers;
  let refused = 0;
  for (let minute = 0; minute < 60; minute += 1) {
    for (let n = minute + 1; n <= 300; n += 1) {
      const guild = busy.guilds.cache.get(guildId(n)) as Json;
      guild["name"] = `Guild ${n} at ${minute}`;
      guild["memberCount"] += 1;
      busy.emit("guildUpdate", guild, guild);
      busy.emit("guildMemberRemove", fakeMember(guild as { id: string }, String(minute * 1_000 + n), []));
    }
    if (!one.companion.feedback(entry(minute))) refused += 1;
    const left = busy.guilds.cache.get(guildId(minute + 1)) as Json;
    busy.guilds.cache.delete(left["id"]);
    busy.emit("guildDelete", left);
    await one.pass(60_000);
    assert.ok(one.clock.timers <= timers + 4, "timers do not pile up");
  }
  assert.ok(refused >= 39, "the queue of feedback is bounded");
  assert.equal(one.log.count("cannot be reached"), 1, "one line for the whole outage");
  assert.equal(one.log.count("changes are waiting"), 1);
  one.wire.reachable = true;
  await one.pass(90_000);
  assert.equal(one.service.guilds.size, 240);
  assert.equal(one.service.guilds.get(guildId(61))?.["name"], "Guild 61 at 59");
  assert.equal(one.service.guilds.get(guildId(61))?.["members"], 60);
  assert.equal(one.service.feedback.size, 60 - refused);
  assert.equal(one.log.count("is back after"), 1);
});

test("what waits never grows beyond its bounds", async () => {
  const clock = new FakeClock();
  const source: Source = {
    shardCount: () => 1,
    heartbeat: () => ({}),
    guildIds: () => ["1"],
    snapshotLine: async (id) => ({ id }),
    eventLine: async (change) => ({ ...change }),
    subscriptions: async () => null,
    team: async () => null,
  };
  const wire = new FakeWire(new Service());
  const feed = new Feed(source, wire.transport, clock, new SafeLogger(null), "i");
  feed.start();
  feed.shardReady(0);
  await clock.pass(10_000, () => rest(clock, wire));
  wire.reachable = false;
  const most = { changes: 0, feedback: 0, batch: 0, counts: 0 };
  for (let n = 0; n < 200_000; n += 1) {
    const guild = guildId(n % 3_000);
    feed.change({ type: "member_gone", guild, user: String(n) });
    feed.memberCount(guild);
    feed.feedback(entry(n));
    if (n % 2_500 === 0) await clock.pass(45_000, () => rest(clock, wire));
    for (const key of ["changes", "feedback", "batch", "counts"] as const) most[key] = Math.max(most[key], feed.waiting[key]);
  }
  assert.equal(most.changes, BOUNDS.changes);
  assert.equal(most.feedback, BOUNDS.feedback);
  assert.ok(most.batch > 0 && most.batch <= BOUNDS.batchLines);
  assert.ok(most.counts <= 6_000, "at most twice for each guild: changed, and due");
});

test("a callback that fails or hangs leaves the guild as the service holds it, and is asked again", async () => {
  let mode: "throw" | "hang" | "ok" = "throw";
  const client = new FakeClient();
  client.add(fakeGuild(1));
  const { service, pass } = world(client, {
    setup: () => {
      if (mode === "throw") throw new Error("no database");
      return mode === "hang" ? new Promise<boolean>(() => {}) : true;
    },
  });
  service.guilds.set(guildId(1), { id: guildId(1), name: "as before" });
  client.ready();
  await pass(1_000);
  assert.equal(service.guilds.get(guildId(1))?.["name"], "as before");
  mode = "hang";
  await pass(90_000);
  assert.equal(service.guilds.get(guildId(1))?.["name"], "as before");
  mode = "ok";
  await pass(90_000);
  assert.equal(service.guilds.get(guildId(1))?.["name"], "Guild 1");
  assert.equal(service.guilds.get(guildId(1))?.["setup"], true);
});

test("an answer that never comes is given up and asked for again", async () => {
  const { client, service, wire, log, pass } = world();
  client.add(fakeGuild(1));
  wire.silent = true;
  client.ready();
  await pass(120_000);
  assert.equal(log.count("cannot be reached"), 1);
  wire.silent = false;
  await pass(120_000);
  assert.equal(service.guilds.size, 1);
});

test("close sends what waits, once, and is over even if nobody answers", async () => {
  const { client, service, companion, pass } = world();
  client.ready();
  await pass(1_000);
  companion.feedback(entry(1));
  const closing = companion.close();
  await pass(1);
  await closing;
  assert.equal(service.feedback.size, 1);
  assert.equal(companion.feedback(entry(2)), false);
  client.emit("guildCreate", fakeGuild(1));
  const calls = service.calls.length;
  await pass(600_000);
  assert.equal(service.calls.length, calls);
  assert.equal(client.listenerCount("raw"), 0);

  const away = world();
  away.client.ready();
  await away.pass(1_000);
  away.wire.reachable = false;
  away.companion.feedback(entry(1));
  await away.pass(10_000);
  const closed = away.companion.close();
  await away.pass(5_000);
  await closed;
  assert.equal(away.log.count("closed before everything was sent"), 1);

  const hung = world(new FakeClient(), { transport: () => new Promise(() => {}) });
  hung.client.ready();
  await hung.pass(1_000);
  const ended = hung.companion.close();
  await hung.pass(5_000);
  await ended;
});

test("nothing of it throws into the bot", async () => {
  const logger = { info: () => { throw new Error("logger"); }, warn: () => { throw new Error("logger"); }, error: () => { throw new Error("logger"); } };
  const { client, companion, pass } = world(new FakeClient(), { logger });
  client.ready();
  client.emit("raw", { t: "GUILD_MEMBER_UPDATE", d: null }, 0);
  client.emit("raw", { t: "READY", d: {} }, 0);
  client.emit("guildCreate", undefined);
  client.emit("guildMemberRemove", {});
  companion.changed("nonsense");
  companion.changed(null as never);
  assert.equal(companion.feedback(null as never), false);
  await pass(60_000);
  assert.equal(attach(client), companion, "attached twice is attached once");
});

test("a name that JSON cannot carry is repaired", async () => {
  const { client, service, pass } = world();
  client.add(fakeGuild(1, `half \ud83d ${"😀".repeat(120)}`));
  client.ready();
  await pass(1_000);
  const name = service.guilds.get(guildId(1))?.["name"] as string;
  assert.equal([...name].length, 100);
  assert.ok(name.startsWith("half \ufffd 😀"));
});

test("a big shard is streamed while the event loop stays free", async () => {
  const client = new FakeClient();
  for (let n = 1; n <= 20_000; n += 1) client.add(fakeGuild(n));
  let pieces = 0;
  let turns = 0;
  let done = false;
  const { pass } = world(client, {
    transport: async ({ path, body }) => {
      if (!(body instanceof Uint8Array)) for await (const piece of body) pieces += piece.length > 0 ? 1 : 0;
      if (path.startsWith("/bot/shards")) done = true;
      return { status: 200, retryAfter: null, data: {} };
    },
  });
  client.ready();
  const turn = (): void => {
    turns += 1;
    if (!done) setImmediate(turn);
  };
  setImmediate(turn);
  await pass(10);
  while (!done) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(pieces > 5, `${pieces} pieces`);
  assert.ok(turns >= 20_000 / 16, `${turns} turns of the event loop`);
});

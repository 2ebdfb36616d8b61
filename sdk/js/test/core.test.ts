// Cases that no scenario covers: long-term limits, memory, the event loop, and callbacks that never finish.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type FeedbackEntry, type Options, type Subscription, attach } from "../src/index.js";
import { DEFAULT_LIMITS } from "../src/limits.js";
import { SimulatedClock } from "./clock.js";
import { FakeClient, type Json, Log, Service, Wire, fakeGuild, guildId, until } from "./support.js";

function world(client: FakeClient, options: Options<ReturnType<typeof fakeGuild>> = {}) {
  const clock = new SimulatedClock();
  const service = new Service();
  const wire = new Wire(service);
  const log = new Log();
  const companion = attach(client, { clock, transport: wire.transport, logger: log, sigterm: false, ...options });
  return { client, clock, service, wire, log, companion, pass: (ms: number) => clock.pass(ms) };
}

function entry(n: number): FeedbackEntry {
  return { id: `f${n}`, feedback: "Fine", rating: 5, timestamp: 1_900_000_000, submitter: { id: "5", username: "marlow" } };
}

function packet(t: string, d: Json): [string, Json, number] {
  return ["raw", { t, d }, 0];
}

test("a service that names one refused subscription at a time: after a few tries the list is left alone until it changes", async () => {
  const refused = (n: number): Subscription => ({ userid: String(n), slots: 2_000_000, guilds: [], active_until: null });
  let all = Array.from({ length: 60 }, (_, index) => refused(index + 1));
  const client = new FakeClient(1);
  const { companion, service, log, pass } = world(client, { subscriptions: () => all, limits: { subscriptionTries: 50 } });
  service.refuse = (line) => (line["slots"] > 1_000_000 ? "`slots` must be a whole number from 0 to 1000000." : undefined);
  client.ready();
  await pass(3_600_000);
  assert.equal(service.of("/bot/subscriptions").length, 50);
  assert.equal(log.count("the service refuses a subscription"), 1);
  assert.equal(log.count("subscriptions are still refused after 50 tries"), 1);
  all = [{ ...refused(7), slots: 1 }, ...all.slice(20)];
  companion.subscriptionsChanged();
  await pass(1_000);
  assert.deepEqual(service.subscriptions.map(({ userid }) => userid), ["7"]);
  assert.equal(log.count("subscriptions are still refused after 50 tries"), 1);
});

test("what a bot calls shortly after a delivery is sent, however short that is", async () => {
  const client = new FakeClient(1);
  const { companion, service, pass } = world(client);
  client.ready();
  await pass(1_000);
  for (let turns = 0; turns < 20; turns += 1) {
    void companion.feedback(entry(turns)).then(async () => {
      for (let turn = 0; turn < turns; turn += 1) await undefined;
      void companion.feedback(entry(100 + turns));
    });
    await pass(1_000);
    await pass(1_000);
    assert.ok(service.feedback.has(`f${100 + turns}`), `${turns} turns later`);
  }
});

test("an hour without the service: bounded, quiet, and everything is there afterwards", async () => {
  const client = new FakeClient(300);
  const { companion, service, wire, log, clock, pass } = world(client, { limits: { changes: 100, feedback: 20 } });
  client.ready();
  await pass(1_000);
  assert.equal(service.guilds.size, 300);
  wire.isReachable = false;
  const timers = clock.timers;
  const results: Promise<unknown>[] = [];
  for (let minute = 0; minute < 60; minute += 1) {
    for (let n = minute + 1; n <= 300; n += 1) {
      const guild = client.guilds.cache.get(guildId(n)) as Json;
      guild["name"] = `Guild ${n} at ${minute}`;
      guild["memberCount"] += 1;
      client.emit("guildUpdate", guild, guild);
      client.emit(...packet("GUILD_MEMBER_REMOVE", { guild_id: guild["id"], user: { id: String(minute * 1_000 + n) } }));
    }
    results.push(companion.feedback(entry(minute)));
    client.guilds.cache.delete(guildId(minute + 1));
    client.emit(...packet("GUILD_DELETE", { id: guildId(minute + 1) }));
    await pass(60_000);
    assert.ok(companion.status().waiting.changes <= 100, "changes are bounded");
    assert.ok(clock.timers <= timers + 4, "timers do not pile up");
  }
  assert.equal(companion.status().state, "unreachable");
  assert.ok(companion.status().waiting.feedback <= 20, "feedback is bounded");
  assert.equal(log.count("cannot be reached"), 1, "one line for the whole outage");
  assert.equal(log.count("too many changes are waiting"), 1);
  assert.equal(log.count("too much feedback is waiting"), 1);
  wire.isReachable = true;
  await pass(90_000);
  const delivered = (await Promise.all(results)).filter((result) => (result as Json)["delivered"]).length;
  assert.equal(delivered, service.feedback.size);
  assert.ok(delivered >= 20 && delivered < 60);
  assert.equal(service.guilds.size, 240);
  assert.equal(service.guilds.get(guildId(61))?.["name"], "Guild 61 at 59");
  assert.equal(service.guilds.get(guildId(61))?.["members"], 60);
  assert.equal(log.count("is back after"), 1);
  assert.equal(companion.status().state, "synced");
});

test("the limits are those of the documentation", async () => {
  const client = new FakeClient(3_000);
  const { companion, wire, pass } = world(client);
  client.ready();
  await pass(1_000);
  wire.isReachable = false;
  const most = { changes: 0, feedback: 0, batch: 0 };
  for (let n = 0; n < 60_000; n += 1) {
    client.emit(...packet("GUILD_MEMBER_REMOVE", { guild_id: guildId((n % 3_000) + 1), user: { id: String(n + 1) } }));
    if (n % 20 === 0) void companion.feedback(entry(n));
    if (n % 2_500 === 0) await pass(45_000);
    if (n % 100 > 0) continue;
    const { waiting } = companion.status();
    for (const key of ["changes", "feedback", "batch"] as const) most[key] = Math.max(most[key], waiting[key]);
  }
  assert.ok(most.changes > 19_000 && most.changes <= DEFAULT_LIMITS.changes, `${most.changes} changes`);
  assert.equal(most.feedback, DEFAULT_LIMITS.feedback);
  assert.ok(most.batch > 0 && most.batch <= DEFAULT_LIMITS.batchLines);
});

test("a list that never ends is given up, and the event loop goes on meanwhile", async () => {
  const log = new Log();
  const client = new FakeClient();
  const service = new Service();
  let turns = 0;
  let isCounting = true;
  const count = (): void => {
    turns += 1;
    if (isCounting) setImmediate(count);
  };
  setImmediate(count);
  let given = 0;
  const subscription: Subscription = { userid: "5", slots: 1, guilds: [], active_until: null };
  let hasEnded = false;
  attach(client, {
    transport: new Wire(service).transport, logger: log, sigterm: false, limits: { callbackTimeout: 50 },
    *subscriptions() {
      try {
        for (;;) {
          given += 1;
          yield subscription;
        }
      } finally {
        hasEnded = true;
      }
    },
    async *team() {
      for (let position = 0; ; position += 1) {
        yield { discord_id: "5", username: "m", name: "M", avatar: "", role: "Lead", color: "#000000", category: "lead", position };
      }
    },
  });
  client.ready();
  await until("both are given up", () => log.count("the callback subscriptions failed") + log.count("the callback team failed") === 2);
  isCounting = false;
  assert.ok(turns > given / 1_000, "the loop had its turns");
  assert.equal(hasEnded, true, "the generator was ended");
  assert.equal(service.of("/bot/subscriptions").length, 0);
});

test("nothing of it throws into the bot", async () => {
  const fail = (): never => {
    throw new Error("the logger is broken");
  };
  const client = new FakeClient(1);
  const { companion, pass } = world(client, { logger: { info: fail, warn: fail, error: fail } });
  companion.on("error", fail);
  companion.on("synced", fail);
  client.ready();
  client.emit(...packet("GUILD_MEMBER_UPDATE", null as never));
  client.emit(...packet("READY", {}));
  client.emit("guildUpdate", undefined, undefined);
  client.emit("roleDelete", {});
  companion.changed("nonsense");
  companion.changed(null as never);
  assert.equal((await companion.feedback(null as never)).delivered, false);
  assert.equal((await companion.feedback({ ...entry(1), rating: 1n as never })).delivered, false);
  assert.equal((await companion.feedbackGone(7 as never)).delivered, false);
  await pass(60_000);
  assert.notEqual(companion.status().lastError, null);
});

test("while shard 0 belongs to a later process, a failed callback isn't called again; other shard counts don't matter", async () => {
  let isFailing = true;
  let calls = 0;
  const subscriptions = (): Subscription[] => {
    calls += 1;
    if (isFailing) throw new Error("the database is down");
    return [];
  };
  const client = new FakeClient(1);
  const { companion, service, pass } = world(client, { subscriptions });
  client.ready();
  await pass(1_000);
  isFailing = false;
  service.owners = { replaced: [{ shard_count: 2, shard_id: 0 }, null], free: "nonsense" };
  void companion.feedback(entry(1));
  await pass(1_000);
  assert.equal(companion.status().state, "synced");
  service.owners = { replaced: [{ shard_count: 1, shard_id: 0 }] };
  void companion.feedback(entry(2));
  await pass(600_000);
  assert.equal(companion.status().state, "replaced");
  assert.equal(calls, 1);
  service.owners = { free: [{ shard_count: 2, shard_id: 0 }] };
  await pass(60_000);
  assert.equal(companion.status().state, "replaced");
  service.owners = { free: [{ shard_count: 1, shard_id: 0 }] };
  await pass(15_000);
  service.owners = {};
  await pass(15_000);
  assert.equal(calls, 2);
  assert.equal(companion.status().state, "synced");
});

test("a process that has sent no heartbeat doesn't say goodbye", async () => {
  const client = new FakeClient(1);
  const { companion, service, pass } = world(client);
  const closing = companion.close();
  await pass(0);
  await closing;
  assert.equal(service.calls.length, 0);
});

test("a shard of 20,000 guilds is streamed while the event loop stays free", async () => {
  const client = new FakeClient(20_000);
  let pieces = 0;
  let turns = 0;
  let isDone = false;
  attach(client, {
    logger: null,
    sigterm: false,
    transport: async ({ path, lines }) => {
      if (!Array.isArray(lines)) for await (const some of lines as AsyncIterable<string[]>) pieces += some.length;
      if (path.startsWith("/bot/shards")) isDone = true;
      return { status: 200, retryAfter: null, data: {} };
    },
  });
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  client.ready();
  await until("the snapshot is sent", () => isDone);
  assert.equal(pieces, 20_001);
  assert.ok(turns >= 20_000 / 16, `${turns} turns of the event loop`);
});

test("a shard that does not know its latency says null, not -1", async () => {
  const client = new FakeClient();
  const { clock, service, pass } = world(client);
  client.ready();
  await pass(15_000);
  assert.deepEqual(service.heartbeats.at(-1)?.["shards"], [{ id: 0, sent_ms_ago: null, acknowledged_ms_ago: null, latency: null }]);
  client.ws.shards.set(0, { id: 0, ping: 40, lastPingTimestamp: clock.now() });
  await pass(15_000);
  const beat = service.heartbeats.at(-1) as Json;
  assert.deepEqual(beat["shards"], [{ id: 0, sent_ms_ago: 15_000, acknowledged_ms_ago: 14_960, latency: 40 }]);
  assert.ok(beat["memory"] > 1_000_000);
});

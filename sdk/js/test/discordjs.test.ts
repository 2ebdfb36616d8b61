import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { Client, GatewayIntentBits, version } from "discord.js";
import { attach } from "../src/index.js";
import { KEY, bots, guild, skip } from "./bots.js";
import { listen } from "./processes.js";
import { type Json, Service, guildId, until } from "./support.js";

const rejections: unknown[] = [];

before(() => {
  process.on("unhandledRejection", (reason) => rejections.push(reason));
});
after(() => {
  assert.deepEqual(rejections, []);
});

test("guilds, staff and changes reach the service", { skip }, async () => {
  const { fake, service, companion, started, stop } = await bots(
    { guilds: [guild(1), guild(2), guild(3, { unavailable: true })], heartbeat_interval: 3_000 },
    [{}],
    { grants: () => ({ 50: ["MOD"] }), setup: (one: { id: string }) => one.id === guildId(1) },
  );
  try {
    await until("two guilds", () => service.guilds.size === 2);
    await until("staff", () => service.guilds.get(guildId(1))?.["staff"]?.["10"]);
    const first = service.guilds.get(guildId(1)) as Json;
    assert.deepEqual(first["staff"], { 10: ["50"] });
    assert.deepEqual([first["name"], first["owner"], first["setup"], first["linked"]], ["Guild 1", "10", true, false]);

    await until("latency", () => service.heartbeats.at(-1)?.["shards"][0]?.latency !== null);
    const beat = service.heartbeats.at(-1) as Json;
    // discord.js 14.12 to 14.15 do not say their version.
    const saysVersion = Boolean((started[0]?.client as Client).options.rest?.userAgentAppendix);
    assert.equal(beat["library"], saysVersion ? `discord.js ${version}` : "discord.js");
    assert.equal(beat["shard_count"], 1);
    assert.ok(beat["shards"][0].sent_ms_ago >= beat["shards"][0].acknowledged_ms_ago);
    assert.equal(service.heartbeats[0]?.["shards"][0].latency === -1, false);

    await fake.emit("GUILD_CREATE", guild(4));
    await until("a new guild", () => service.guilds.has(guildId(4)));
    await fake.emit("GUILD_UPDATE", { id: guildId(1), name: "Renamed" });
    await until("a new name", () => service.guilds.get(guildId(1))?.["name"] === "Renamed");
    await fake.emit("GUILD_MEMBER_UPDATE", { guild_id: guildId(1), user: { id: "11", username: "ivo" }, roles: ["50"] });
    await until("promoted", () => service.guilds.get(guildId(1))?.["staff"]["11"]);
    await fake.emit("GUILD_MEMBER_UPDATE", { guild_id: guildId(1), user: { id: "10", username: "marlow" }, roles: [] });
    await until("demoted", () => !service.guilds.get(guildId(1))?.["staff"]["10"]);
    await fake.emit("GUILD_MEMBER_REMOVE", { guild_id: guildId(1), user: { id: "11", username: "ivo" } });
    await until("kicked", () => service.membersGone.includes(`${guildId(1)}/11`) && !service.guilds.get(guildId(1))?.["staff"]["11"]);
    await fake.emit("GUILD_MEMBER_REMOVE", { guild_id: guildId(2), user: { id: "4711", username: "unmet" } });
    await until("one whom the library never met", () => service.membersGone.includes(`${guildId(2)}/4711`));
    await until("the member count", () => service.guilds.get(guildId(2))?.["members"] !== 3);

    await fake.emit("GUILD_DELETE", { id: guildId(2), unavailable: true });
    await fake.emit("GUILD_DELETE", { id: guildId(4) });
    await until("a departure", () => !service.guilds.has(guildId(4)));
    assert.ok(service.guilds.has(guildId(2)), "an outage is not a departure");

    await fake.emit("GUILD_CREATE", guild(3));
    await until("the end of an outage", () => service.guilds.has(guildId(3)));
    const submitter = { id: "5", username: "m", name: "M", avatar: "https://example.org/a.png" };
    void companion.feedback({ id: "f1", feedback: "Fine", rating: 5, timestamp: 1, submitter });
  } finally {
    await stop();
  }
  assert.equal(service.feedback.size, 1, "close has sent what waited");
});

test("several shards in one process", { skip }, async () => {
  const { service, stop } = await bots(
    { shards: 2, guilds: [guild(1), guild(2), guild(3), guild(4)] },
    [{ shards: "auto" as never }],
    { subscriptions: async () => [{ userid: "5", slots: 1, guilds: [guildId(1)], active_until: null }] },
  );
  try {
    await until("four guilds", () => service.guilds.size === 4);
    await until("subscriptions", () => service.subscriptions.length === 1);
    const paths = new Set(service.of("/bot/shards").map(({ path }) => path));
    assert.deepEqual([...paths].sort(), ["/bot/shards/2/0/guilds", "/bot/shards/2/1/guilds"]);
    await until("both shards beat", () => service.heartbeats.at(-1)?.["shards"].length === 2);
  } finally {
    await stop();
  }
});

test("a cluster: each process sends its own shards, and the one with shard 0 the rest", { skip }, async () => {
  const { service, stop } = await bots(
    { shards: 3, guilds: [guild(1), guild(2), guild(3)] },
    [{ shards: [0, 1], shardCount: 3 }, { shards: [2], shardCount: 3 }],
    { subscriptions: () => [{ userid: "5", slots: 1, guilds: [], active_until: null }] },
  );
  try {
    await until("three guilds", () => service.guilds.size === 3);
    await until("subscriptions", () => service.subscriptions.length === 1);
    const instances = new Map(service.of("/bot/shards").map(({ path, instance }) => [path, instance]));
    assert.equal(instances.get("/bot/shards/3/0/guilds"), instances.get("/bot/shards/3/1/guilds"));
    assert.notEqual(instances.get("/bot/shards/3/0/guilds"), instances.get("/bot/shards/3/2/guilds"));
    const senders = new Set(service.of("/bot/subscriptions").map(({ instance }) => instance));
    assert.deepEqual([...senders], [instances.get("/bot/shards/3/0/guilds")]);
  } finally {
    await stop();
  }
});

test("a new session after an invalid one: what happened in between is seen", { skip }, async () => {
  const { fake, service, stop } = await bots({ guilds: [guild(1), guild(2)] }, [{}]);
  try {
    await until("two guilds", () => service.guilds.size === 2);
    await fake.tell("world", { guilds: [guild(2, { name: "Renamed" }), guild(3)] });
    await fake.tell("invalid_session", { shard: 0, resumable: false });
    await until("the new world", () => service.guilds.has(guildId(3)) && service.guilds.get(guildId(2))?.["name"] === "Renamed");
    assert.deepEqual([...service.guilds.keys()].sort(), [guildId(2), guildId(3)].sort(), "guild 1 was left unheard");
    // The library still has the old one in its cache.
    await fake.emit("GUILD_CREATE", guild(1, { name: "Joined again" }));
    await until("guild 1 again", () => service.guilds.has(guildId(1)));
    assert.equal(service.guilds.get(guildId(1))?.["name"], "Joined again");
  } finally {
    await stop();
  }
});

test("the service goes away, comes back empty, and has everything again; the bot never notices", { skip }, async () => {
  const { fake, service, server, started, log, stop } = await bots({ guilds: [guild(1)] }, [{}]);
  let again: Awaited<ReturnType<typeof listen>> | null = null;
  try {
    await until("a guild", () => service.guilds.size === 1);
    const client = started[0]?.client as Client;
    let dropped = 0;
    client.on("shardReconnecting", () => (dropped += 1));
    await server.stop();
    service.forget();
    await fake.emit("GUILD_CREATE", guild(2));
    await fake.emit("GUILD_CREATE", guild(3));
    await until("the outage is told", () => log.count("cannot be reached") === 1);
    again = await listen(service, KEY, server.port);
    await until("everything", () => service.guilds.size === 3);
    assert.equal(dropped, 0);
    assert.equal(client.isReady(), true);
    assert.equal(log.count("cannot be reached"), 1);
  } finally {
    await again?.stop();
    await stop();
  }
});

test("attached after the login: what is there is sent, and what changes", { skip }, async () => {
  const { fake, service, server, log, stop } = await bots({ guilds: [guild(1)] }, []);
  const client = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers], rest: { api: fake.api } });
  try {
    await client.login(fake.token);
    await until("logged in", () => client.isReady());
    // The callback gets discord.js' own guild, in types, too.
    const companion = attach(client, { url: server.url, key: KEY, logger: log, sigterm: false, limits: { gatherTime: 20 }, setup: (one) => one.roles.cache.size > 1 });
    await until("the guild", () => service.guilds.get(guildId(1))?.["setup"]);
    await fake.emit("GUILD_DELETE", { id: guildId(1) });
    await until("the departure", () => service.guilds.size === 0);
    await companion.close();
  } finally {
    await client.destroy();
    await stop();
  }
});

test("a wrong key is said once, and the bot runs on", { skip }, async () => {
  const { started, log, stop } = await bots({ guilds: [guild(1)] }, [{}], { key: "bck_wrong" });
  try {
    await until("said", () => log.count("check COMPANION_BOT_KEY") === 1);
    assert.equal((started[0]?.client as Client).isReady(), true);
  } finally {
    await stop();
  }
});

test("it does not keep the process alive", async () => {
  const gone = await listen(new Service(), KEY);
  await gone.stop();
  const index = new URL("../src/index.js", import.meta.url).href;
  const script = `
    import { EventEmitter } from "node:events";
    import { attach } from ${JSON.stringify(index)};
    const client = new EventEmitter();
    client.guilds = { cache: new Map() };
    client.ws = { shards: new Map([[0, { id: 0, ping: -1, lastPingTimestamp: -1 }]]) };
    client.options = { shardCount: 1 };
    attach(client);
    client.emit("shardReady", 0);
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: "inherit",
    env: { ...process.env, COMPANION_URL: gone.url, COMPANION_BOT_KEY: KEY },
  });
  const code = await new Promise((resolve) => child.on("exit", resolve));
  assert.equal(code, 0);
});

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, GatewayIntentBits } from "discord.js";
import { type Companion, attach } from "../src/index.js";
import { FakeDiscord } from "./processes.js";
import { RealService, needsService } from "./real.js";
import { type Json, Log, guildId, until } from "./support.js";

test("guilds and health show in the real service, which is killed and comes back under the bot", { skip: needsService }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "sdk-js-"));
  const service = new RealService(folder);
  const log = new Log();
  let fake: FakeDiscord | null = null;
  let client: Client | null = null;
  let companion: ReturnType<typeof attach> | null = null;
  try {
    await service.start();
    let token = await service.signIn("owner");
    let common: Json[] = [];
    // The demo bot's guilds tell in which ones the sandbox's person is.
    await until("the demo bot's guilds", async () => (common = await service.get("/guilds", token)).length >= 2);
    const [own, other] = common as [Json, Json];
    const world = (id: string, name: string): Json => ({ id, name, owner_id: own["owner"], member_count: 12, roles: [{ id: "50", name: "Crew" }] });
    // A heartbeat that is not acknowledged before the next one is a lost connection, also on a machine with much to do.
    fake = await FakeDiscord.start({ heartbeat_interval: 5_000, guilds: [world(own["id"], "From discord.js")] });

    client = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers], rest: { api: fake.api } });
    companion = attach(client, { url: service.url, key: service.key, logger: log, limits: { gatherTime: 20, firstRetry: 50, heartbeatInterval: 200 } });
    let reconnects = 0;
    client.on("shardReconnecting", () => (reconnects += 1));
    await client.login(fake.token);

    const names = async (): Promise<string[]> => ((await service.get("/guilds", token)) as Json[]).map((guild) => guild["name"]);
    await until("the bot's guild alone", async () => (await names()).join() === "From discord.js");
    await until("one healthy shard", async () => {
      const { health, resources } = await service.get("/");
      return Object.keys(health.bot.shards).join() === "0" && health.bot.shards["0"].heartbeatAcknowledged > 0 && resources.memory > 0;
    });
    await fake.emit("GUILD_CREATE", world(other["id"], "A second one"));
    await until("a second guild", async () => (await names()).length === 2);

    await service.kill();
    await fake.emit("GUILD_UPDATE", { id: own["id"], name: "Renamed meanwhile" });
    await fake.emit("GUILD_DELETE", { id: other["id"] });
    await until("the outage is told", () => log.count("cannot be reached") === 1);
    await service.start();
    // The sandbox forgets its grants.
    token = await service.signIn("owner");
    await until("what happened meanwhile", async () => (await names()).join() === "Renamed meanwhile");

    assert.equal(reconnects, 0);
    assert.equal(client.isReady(), true);
  } catch (error) {
    console.error(log.lines.join("\n"));
    throw error;
  } finally {
    await companion?.close();
    await client?.destroy();
    fake?.stop();
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  }
});

test("a second copy of the bot owns the shard: the first one is told why, sends nothing, and takes over when the second one leaves", { skip: needsService }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "sdk-js-"));
  const service = new RealService(folder);
  const fake = await FakeDiscord.start({ guilds: [{ id: guildId(1), name: "Harbour", owner_id: "10" }] });
  const logs = [new Log(), new Log()];
  const started: { client: Client; companion: Companion }[] = [];
  try {
    await service.start();
    for (const logger of logs) {
      const client = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers], rest: { api: fake.api } });
      const companion = attach(client, { url: service.url, key: service.key, logger, sigterm: false, limits: { gatherTime: 20, heartbeatInterval: 200 } });
      started.push({ client, companion });
      await client.login(fake.token);
      await until("synced", () => companion.status().state === "synced");
    }
    const [first, second] = started.map(({ companion }) => companion) as [Companion, Companion];
    const sent = (companion: Companion): number => companion.status().counters.linesSent;
    await fake.emit("GUILD_UPDATE", { id: guildId(1), name: "Renamed" });
    await until("the first one knows it", () => first.status().state === "replaced");
    const before = { first: sent(first), second: sent(second) };
    for (const name of ["Renamed again", "And again"]) {
      await fake.emit("GUILD_UPDATE", { id: guildId(1), name });
      await until("the second one has sent it", () => sent(second) > before.second);
      before.second = sent(second);
    }
    assert.equal(sent(first), before.first);
    await second.close();
    await until("the first one has sent the shard again", () => first.status().state === "synced");
    assert.equal(first.status().counters.snapshots, 2);
    assert.equal(logs[0]?.count("warn [bot-companion] the service ignores"), 1);
    assert.equal(logs[1]?.count("the service ignores"), 0);
  } finally {
    for (const { client, companion } of started) {
      await companion.close();
      await client.destroy();
    }
    fake.stop();
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  }
});

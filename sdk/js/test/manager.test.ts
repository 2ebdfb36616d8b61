// A file, so a process, of its own: the manager changes the environment for every client in its process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ShardingManager } from "discord.js";
import { FakeDiscord, PYTHON, listen } from "./processes.js";
import { Service, guildId, until } from "./support.js";

const KEY = "bck_test";
const skip = PYTHON ? false : "FAKE_DISCORD_PYTHON is not set";

test("the three lines under discord.js' own sharding manager, a process a shard", { skip }, async () => {
  const fake = await FakeDiscord.start({ shards: 2, guilds: [1, 2, 3].map((n) => ({ id: guildId(n), name: `Guild ${n}`, owner_id: "10" })) });
  const service = new Service();
  const server = await listen(service, KEY);
  Object.assign(process.env, { COMPANION_URL: server.url, COMPANION_BOT_KEY: KEY, FAKE_DISCORD_API: fake.api });
  const manager = new ShardingManager(fileURLToPath(new URL("bot.js", import.meta.url)), {
    totalShards: 2, token: fake.token, respawn: false,
  });
  try {
    await manager.spawn({ delay: 0, timeout: 300_000 });
    await until("three guilds", () => service.guilds.size === 3);
    await until("two processes", () => new Set(service.heartbeats.map((beat) => beat["instance"])).size === 2);
    for (const beat of service.heartbeats) assert.deepEqual([beat["shard_count"], beat["shards"].length], [2, 1]);
  } finally {
    for (const shard of manager.shards.values()) shard.kill();
    await server.stop();
    fake.stop();
  }
});

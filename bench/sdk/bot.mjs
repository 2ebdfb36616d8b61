// A discord.js bot for `bench/sdk/run`; see bot.py, which does the same.
import { createInterface } from "node:readline";
import { Client, GatewayIntentBits } from "discord.js";

const client = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers],
  shards: "auto",
  rest: { api: process.env.API },
});
let companion = null;
if (process.env.SDK === "with") {
  const { attach } = await import("@bot-companion/discord.js");
  companion = attach(client, {
    grants: ({ id }) => ({ [String(BigInt(id) + 1n)]: ["ADMIN"], [String(BigInt(id) + 2n)]: ["MOD"] }),
    setup: () => true,
    limits: { listingRate: Number(process.env.LISTING_RATE) },
  });
}
let took = [];
let failed = 0;
async function say(channel) {
  const began = performance.now();
  try {
    await client.rest.post(`/channels/${channel}/messages`, { body: { content: "hello" } });
  } catch {
    failed += 1;
  }
  took.push(performance.now() - began);
}
client.once("clientReady", () => {
  console.log("ready");
  let number = 0;
  if (process.env.CALLS) setInterval(() => void say(String(BigInt((number++ % 500) + 1) << 22n)), 130);
});
createInterface({ input: process.stdin })
  .on("line", () => {
    const { user, system } = process.cpuUsage();
    const memory = process.memoryUsage.rss() / 2 ** 20;
    const status = companion?.status();
    const synced = !status || status.state === "synced";
    console.log(JSON.stringify({ cpu: (user + system) / 1e6, memory, synced, listings: status?.counters.listings ?? 0, took, failed }));
    took = [];
  })
  .on("close", () => process.exit(0));
await client.login(process.env.TOKEN);

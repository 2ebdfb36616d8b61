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
  });
}
client.once("clientReady", () => console.log("ready"));
createInterface({ input: process.stdin })
  .on("line", () => {
    const { user, system } = process.cpuUsage();
    const memory = process.memoryUsage.rss() / 2 ** 20;
    const synced = companion === null || companion.status().state === "synced";
    console.log(JSON.stringify({ cpu: (user + system) / 1e6, memory, synced }));
  })
  .on("close", () => process.exit(0));
await client.login(process.env.TOKEN);

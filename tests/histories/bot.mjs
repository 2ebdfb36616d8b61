// A discord.js bot with the SDK. Its database is a JSON file that the player writes; commands come on stdin.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { attach } from "../../sdk/js/dist/esm/index.js";

const require = createRequire(new URL("../../sdk/js/package.json", import.meta.url));
const { Client, GatewayIntentBits } = require("discord.js");
const given = JSON.parse(process.argv[2]);
// stdout is for answers.
console.log = console.info = console.debug = console.error;

const client = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers],
  shards: Array.from({ length: given.shards }, (_, shard) => shard),
  shardCount: given.shards,
  waitGuildTimeout: 200,
  rest: { api: given.api },
  // Discord wants five seconds between two sessions; the fake one doesn't.
  ws: { buildIdentifyThrottler: async () => ({ waitForIdentify: async () => {} }) },
});
if (given.cached) {
  const fetchMembers = (guild) => guild.members.fetch().catch(() => {});
  client.on("guildAvailable", fetchMembers);
  client.on("guildCreate", fetchMembers);
  client.on("clientReady", () => client.guilds.cache.forEach(fetchMembers));
}
client.on("error", (error) => console.error("error:", error.message));

/** The bot's database, if it works. */
async function database() {
  for (;;) {
    const known = JSON.parse(readFileSync(given.database, "utf8"));
    if (known.callbacks === "fail") throw new Error("the database is away");
    if (known.callbacks !== "hang") return known;
    await sleep(20);
  }
}
const settings = async (guild) => (await database()).guilds[guild.id];

const names = Object.entries(given.limits).filter(([name]) => name !== "longest_listing_retry");
const camelCase = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
// Seconds become milliseconds; the rate stays.
const limits = Object.fromEntries(names.map(([name, value]) => [camelCase(name), name === "listing_rate" ? value : value * 1000]));
const companion = attach(client, {
  url: given.url,
  key: given.key,
  spool: given.spool,
  limits,
  grants: async (guild) => (await settings(guild)).grants,
  setup: async (guild) => (await settings(guild)).setup,
  linked: async (guild) => (await settings(guild)).linked,
  subscriptions: async () => (await database()).subscriptions,
  team: async () => (await database()).team,
});

const commands = {
  changed: ({ guild }) => companion.changed(guild),
  everything_changed: () => companion.changed(),
  subscriptions_changed: () => companion.subscriptionsChanged(),
  team_changed: () => companion.teamChanged(),
  feedback: ({ id, text, rating }) =>
    companion.feedback({ id, feedback: text, rating, timestamp: Math.floor(Date.now() / 1000), submitter: { id: "1", username: "marlow" } }),
  feedback_gone: ({ id }) => companion.feedbackGone(id),
  status: () => {},
};
const lines = createInterface({ input: process.stdin });
// The player is gone.
lines.on("close", () => process.exit(1));
lines.on("line", (line) => {
  const command = JSON.parse(line);
  commands[command.do](command);
  process.stdout.write(`${JSON.stringify(companion.status())}\n`);
});

await client.login(given.token);

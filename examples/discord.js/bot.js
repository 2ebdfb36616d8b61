/** lantern: a small discord.js bot with a dashboard. README.md says how to run it. */
import { join } from "node:path";
import { attach } from "@bot-companion/discord.js";
import { Client, Events, GatewayIntentBits } from "discord.js";
import { answer, definitions, handlers } from "./commands.js";
import { Store } from "./store.js";

const data = process.env.LANTERN_DATA ?? "data";
const store = new Store(join(data, "lantern.json"));
const client = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers] });

const companion = attach(client, {
  grants: (guild) => store.grants(guild.id),
  setup: (guild) => store.isSetUp(guild.id),
  linked: (guild) => store.isLinked(guild.id),
  subscriptions: () => store.subscriptions(),
  team: () => store.team(),
  // Feedback that the service did not receive before the bot stopped is sent after the next start.
  spool: join(data, "feedback.spool"),
});
const commands = handlers(store, companion);

client.on(Events.InteractionCreate, (interaction) => answer(interaction, commands));
client.once(Events.ClientReady, async () => {
  try {
    await client.application.fetch(); // its owner
    await client.application.commands.set(definitions);
    console.log(`${client.user.username} is ready`);
  } catch (error) {
    console.error("the commands cannot be registered:", error);
  }
});

// `docker stop` sends SIGTERM. Send what is queued for the service, then stop the bot.
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, async () => {
    await companion.close();
    await client.destroy();
    process.exit(0);
  });
}

await client.login(process.env.DISCORD_TOKEN);

// A bot as the documentation shows it; only Discord's address is not the real one.
import { Client, GatewayIntentBits } from "discord.js";
import { attach } from "@bot-companion/discord.js";

const client = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers],
  rest: { api: process.env["FAKE_DISCORD_API"] ?? "" },
});

attach(client);
await client.login(process.env["DISCORD_TOKEN"]);

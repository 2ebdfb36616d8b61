// The bot from the documentation, except for Discord's address.
import { Client, GatewayIntentBits } from "discord.js";
import { attach } from "@bot-companion/discord.js";

const client = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers],
  rest: { api: process.env["FAKE_DISCORD_API"] ?? "" },
});

attach(client);
await client.login(process.env["DISCORD_TOKEN"]);

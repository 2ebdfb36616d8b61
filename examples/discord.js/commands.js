/** lantern's slash commands: their definitions for Discord, and their handlers. */
import { ApplicationCommandOptionType as Type, InteractionContextType, MessageFlags, PermissionFlagsBits } from "discord.js";

const inGuilds = { contexts: [InteractionContextType.Guild] };
const forManagers = { ...inGuilds, defaultMemberPermissions: PermissionFlagsBits.ManageGuild };
const option = (type, name, description, more = {}) => ({ type, name, description, required: true, ...more });

export const definitions = [
  {
    name: "setup", description: "Choose who may use the dashboard", ...forManagers,
    options: [option(Type.Role, "admin", "May do everything"), option(Type.Role, "mod", "May moderate")],
  },
  {
    name: "link", description: "Link this server with its game server", ...forManagers,
    options: [option(Type.String, "game_server", "Its name")],
  },
  {
    name: "premium", description: "Get premium for this server (a real bot would take money)", ...inGuilds,
    options: [option(Type.Integer, "days", "For how long", { required: false, minValue: 1, maxValue: 365 })],
  },
  {
    name: "team", description: "Show somebody as a member of the bot's team (for its owner)",
    options: [option(Type.User, "member", "Who"), option(Type.String, "title", "What they do")],
  },
  {
    name: "feedback", description: "Say what you think of lantern",
    options: [
      option(Type.Integer, "rating", "1 to 5", { minValue: 1, maxValue: 5 }),
      option(Type.String, "text", "In your words", { maxLength: 4000 }),
    ],
  },
];

/** The handler of each command, by name. It returns the reply. */
export function handlers(store, companion) {
  return {
    setup({ guildId, options }) {
      const [admin, mod] = [options.getRole("admin", true), options.getRole("mod", true)];
      store.setRoles(guildId, admin.id, mod.id);
      companion.changed(guildId);
      return `${admin.name} and ${mod.name} may use the dashboard now.`;
    },
    link({ guildId, options }) {
      store.setGameServer(guildId, options.getString("game_server", true));
      companion.changed(guildId);
      return `Linked with ${options.getString("game_server", true)}.`;
    },
    premium({ guildId, options, user }) {
      const days = options.getInteger("days") ?? 30;
      store.addPremium(user.id, guildId, days);
      companion.subscriptionsChanged();
      return `Premium for ${days} days.`;
    },
    team({ client, options, user }) {
      if (user.id !== client.application.owner?.id) return "Only the bot's owner chooses its team.";
      const member = options.getUser("member", true);
      store.addToTeam(member.id, member.username, member.displayName, member.displayAvatarURL(), options.getString("title", true));
      companion.teamChanged();
      return `${member.displayName} is on the team.`;
    },
    feedback({ id, options, user, createdTimestamp }) {
      // The interaction's ID is unique, so the entry can use it.
      const entry = {
        id,
        feedback: options.getString("text", true),
        rating: options.getInteger("rating", true),
        timestamp: Math.floor(createdTimestamp / 1000),
        submitter: { id: user.id, username: user.username, name: user.displayName, avatar: user.displayAvatarURL() },
      };
      void companion.feedback(entry).then(({ delivered, reason }) => {
        if (!delivered) console.warn(`feedback ${id} was not delivered: ${reason}`);
      });
      return "Thank you!";
    },
  };
}

/** Replies to an interaction, and logs errors. */
export async function answer(interaction, commands) {
  if (!interaction.isChatInputCommand()) return;
  try {
    const content = commands[interaction.commandName]?.(interaction);
    if (content) await interaction.reply({ content, flags: MessageFlags.Ephemeral, allowedMentions: { parse: [] } });
  } catch (error) {
    console.error(`/${interaction.commandName} failed:`, error);
  }
}

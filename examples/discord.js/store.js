/** Stores lantern's data in a JSON file: guild settings, premium subscriptions and team members. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export class Store {
  #path;
  #data = { settings: {}, premium: {}, team: {} };

  constructor(path) {
    this.#path = path;
    mkdirSync(dirname(path), { recursive: true });
    try {
      this.#data = JSON.parse(readFileSync(path, "utf8"));
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }

  /** Replaces the file atomically, so that it is never half written. */
  #save() {
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#data));
    renameSync(`${this.#path}.new`, this.#path);
  }

  // Written by the commands

  setRoles(guild, adminRole, modRole) {
    this.#data.settings[guild] = { ...this.#data.settings[guild], adminRole, modRole };
    this.#save();
  }

  setGameServer(guild, gameServer) {
    this.#data.settings[guild] = { ...this.#data.settings[guild], gameServer };
    this.#save();
  }

  addPremium(user, guild, days) {
    const endsAt = Math.floor(Date.now() / 1000) + days * 86_400;
    this.#data.premium[user] = { ...this.#data.premium[user], [guild]: endsAt };
    this.#save();
  }

  addToTeam(user, username, name, avatar, title) {
    this.#data.team[user] = { username, name, avatar, title };
    this.#save();
  }

  // Read for the dashboard

  /** What each role may do in the dashboard. */
  grants(guild) {
    const { adminRole, modRole } = this.#data.settings[guild] ?? {};
    return adminRole ? { [adminRole]: ["ADMIN", "SESSION_STARTER"], [modRole]: ["MOD"] } : {};
  }

  isSetUp(guild) {
    return Boolean(this.#data.settings[guild]?.adminRole);
  }

  isLinked(guild) {
    return Boolean(this.#data.settings[guild]?.gameServer);
  }

  subscriptions() {
    return Object.entries(this.#data.premium).map(([userid, guilds]) => ({
      userid,
      slots: Object.keys(guilds).length,
      guilds: Object.keys(guilds),
      active_until: Math.max(...Object.values(guilds)),
    }));
  }

  team() {
    return Object.entries(this.#data.team).map(([discord_id, { username, name, avatar, title }], index) => ({
      discord_id, username, name, avatar,
      role: title, color: "#E0A030", category: "crew", position: index + 1, permissions: ["SUPPORT"],
    }));
  }
}

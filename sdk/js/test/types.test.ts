// The types require what the service requires: tsc is the test, and a line without its error fails it.
import { test } from "node:test";
import { type Client, Collection } from "discord.js";
import type { Companion, FeedbackEntry, Grants, GuildPermission, Options, Subscription, TeamMember, attach } from "../src/index.js";

export const complete: TeamMember = { discord_id: 20n, username: "u", role: "Founder", color: "#5865F2", category: "lead", position: 1 };
export const subscription: Subscription = { userid: 20n, slots: 1, guilds: ["4194304", 8388608n], active_until: new Date() };
export const feedback: FeedbackEntry = { id: 1n, feedback: "Fine", rating: 5, submitter: { id: 20n, username: "u" } };

// @ts-expect-error -- no submitter
export const anonymous: FeedbackEntry = { id: 1n, feedback: "Fine", rating: 5 };
// @ts-expect-error -- no color
export const colourless: TeamMember = { discord_id: "20", username: "u", role: "Founder", category: "lead", position: 1 };
// @ts-expect-error -- no id
export const nameless: TeamMember = { username: "u", role: "Founder", color: "#5865F2", category: "lead", position: 1 };
// @ts-expect-error -- the end is required, even if there is none
export const endless: Subscription = { userid: "20", slots: 1, guilds: [] };
// @ts-expect-error -- a number loses digits
export const numbered: Subscription = { userid: 20, slots: 1, guilds: [], active_until: null };

export const options: Options[] = [
  { grants: () => ({ 50: ["MOD"] }) },
  { grants: async (): Promise<Grants> => ({}) },
  { grants: () => new Map([["50", ["MOD"] as GuildPermission[]]]) },
  { grants: () => new Collection<string, GuildPermission[]>() },
  // @ts-expect-error -- undefined is not an answer
  { grants: () => undefined },
  // @ts-expect-error -- undefined is not an answer
  { setup: () => null },
  // @ts-expect-error -- undefined is not an answer
  { subscriptions: () => undefined },
];

export function calls(companion: Companion, client: Client, attached: typeof attach): void {
  attached(client, { grants: (guild) => guild.roles.cache.filter((role) => role.name === "Crew").mapValues((): GuildPermission[] => ["MOD"]) });
  companion.changed();
  companion.changed(1n);
  // @ts-expect-error -- the guild may not have been found
  companion.changed(client.guilds.cache.get("1"));
}

test("the types require what the service requires", () => {});

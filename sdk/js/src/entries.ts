import { idText, withTextId } from "./ids.js";

/** The line of a subscription. Throws if something is missing: an incomplete entry must not take premium away or grant it forever. */
export function readSubscription(entry: Record<string, unknown>): string {
  const { slots, guilds } = entry;
  const until = entry["active_until"];
  const active_until = until instanceof Date ? until.getTime() / 1_000 : until;
  const userid = idText(entry["userid"]);
  if (userid === null) throw new TypeError("each subscription needs userid, an ID as text or BigInt");
  if (!Number.isInteger(slots)) throw new TypeError(`the subscription of ${userid} needs slots, a whole number`);
  if (!Array.isArray(guilds)) throw new TypeError(`the subscription of ${userid} needs guilds, a list of IDs`);
  const ids = guilds.map(idText);
  if (ids.includes(null)) throw new TypeError(`the subscription of ${userid} lists a guild that is not an ID: use IDs as text or BigInt`);
  if (active_until !== null && !Number.isFinite(active_until)) {
    throw new TypeError(`the subscription of ${userid} needs active_until: epoch seconds or a Date, or null if it never ends`);
  }
  return JSON.stringify({ userid, slots, guilds: ids, active_until });
}

/** A team member as JSON. The service checks what a member must have. */
export function readMember(member: Record<string, unknown>): string {
  return JSON.stringify(withTextId(member, "discord_id"));
}

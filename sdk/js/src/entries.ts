import { idText, withTextId } from "./ids.js";

/** A subscription as it is sent. */
export interface SubscriptionLine {
  userid: string;
  slots: number;
  guilds: string[];
  /** Epoch seconds; null if it never ends. */
  active_until: number | null;
}

/** One subscription per user, which is what the service keeps; a bot may have one per payment. */
export function unite(entries: SubscriptionLine[], now: number): SubscriptionLine[] {
  const byUser = new Map<string, SubscriptionLine[]>();
  for (const entry of entries) {
    const others = byUser.get(entry.userid);
    if (others) others.push(entry);
    else byUser.set(entry.userid, [entry]);
  }
  return [...byUser.values()].map((all) => united(all, now));
}

/**
 * Guilds and slots together, until the latest end. What has ended doesn't count beside what has not: its guilds would get
 * premium again.
 */
function united(all: SubscriptionLine[], now: number): SubscriptionLine {
  const [first] = all as [SubscriptionLine];
  if (all.length === 1) return first;
  const endOf = ({ active_until }: SubscriptionLine): number => active_until ?? Infinity;
  const lasting = all.filter((one) => endOf(one) > now);
  const current = lasting.length > 0 ? lasting : all;
  const end = current.reduce((latest, one) => Math.max(latest, endOf(one)), -Infinity);
  return {
    userid: first.userid,
    slots: current.reduce((sum, { slots }) => sum + slots, 0),
    guilds: [...new Set(current.flatMap(({ guilds }) => guilds))],
    active_until: end === Infinity ? null : end,
  };
}

/** Reads a subscription. Throws if something is missing: an incomplete entry must not take premium away or grant it forever. */
export function readSubscription(entry: Record<string, unknown>): SubscriptionLine {
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
  return { userid, slots: slots as number, guilds: ids as string[], active_until: active_until as number | null };
}

/** A team member as JSON. The service checks what a member must have. */
export function readMember(member: Record<string, unknown>): string {
  return JSON.stringify(withTextId(member, "discord_id"));
}

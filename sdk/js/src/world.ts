/** A member of a guild. */
export interface Member {
  id: string;
  roles: Iterable<string>;
}

/** What the library knows about a guild. */
export interface GuildFields {
  id: string;
  name: string;
  /** The icon's hash. */
  icon: string | null;
  owner: string;
  members: number;
}

/** A shard as the heartbeat reports it; null where the library doesn't know. */
export interface ShardReport {
  id: number;
  sent_ms_ago: number | null;
  acknowledged_ms_ago: number | null;
  latency: number | null;
}

/**
 * The bot as the core sees it: an adapter reads it from a library's cache. The core asks when it sends, so it never
 * sends an old state after a new one.
 */
export interface World {
  /** The bot's username; null before it logs in. */
  name(): string | null;
  /** The library and its version. */
  library(): string | null;
  /** The total number of shards. */
  shardCount(): number;
  /** The process's own shards; none before the library knows them. */
  shards(): ShardReport[];
  /** The shard's guilds in the library, including those with an outage. */
  guildIds(shard: number): string[];
  /** Null if the library doesn't have it. */
  guild(id: string): GuildFields | "unavailable" | null;
  /** All members of the guild, or null if the cache doesn't have all of them or isn't kept up to date. */
  cachedMembers(guild: string): Iterable<Member> | null;
  /** Why members cannot be listed at all, as a sentence for the log; null if they can. */
  listingObstacle(): string | null;
  /** The library's name for the intent that members need. */
  readonly membersIntent: string;
  /** Up to PAGE members with IDs above `after`, in ascending order. A rejection may have a `status`: 429 if Discord rate limited this page. */
  listMembers(guild: string, after: string, signal: AbortSignal): Promise<Member[]>;
}

/** The message for a client without the members intent. */
export function lacksIntent(intent: string): string {
  return `the client lacks the intent ${intent}: staff is not sent. Add it to the client's intents, and turn it on in Discord's developer portal`;
}

/** Members per page; a shorter page is the last. */
export const PAGE = 1_000;

/** The shard of a guild. */
export function shardOf(guild: string, count: number): number {
  return count > 1 ? Number((BigInt(guild) >> 22n) % BigInt(count)) : 0;
}

/** Compares two IDs as numbers. */
export function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

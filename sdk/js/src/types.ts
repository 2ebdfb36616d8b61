import type { Clock } from "./clock.js";
import type { Bounds } from "./feed.js";
import type { Logger } from "./logger.js";
import type { Transport } from "./transport.js";

/** What a role may grant in a guild. */
export type GuildPermission = "ERLC_MANAGER" | "ERLC_ADMIN" | "ERLC_STAFF" | "ADMIN" | "MOD" | "SESSION_STARTER";

/** What the team's roster may say of a person. */
export type TeamPermission =
  | "FOUNDER"
  | "EXECUTIVE"
  | "MANAGEMENT"
  | "SERVICE_STAFF"
  | "SUPPORT"
  | "QUALITY_ASSURANCE"
  | "DOCWRITER"
  | "WEB_DEVELOPER"
  | "BOT_DEVELOPER";

/** Role id to what the role grants. */
export type Grants = Record<string, readonly GuildPermission[]>;

/** Who pays for premium, and where it counts. */
export interface Subscription {
  userid: string;
  slots: number;
  guilds: readonly string[];
  /** Epoch seconds; null: without end. */
  active_until: number | null;
}

/** A user's profile. */
export interface Profile {
  id: string;
  username: string;
  name: string;
  /** A URL. */
  avatar: string;
}

/** What somebody says of the bot. */
export interface FeedbackEntry {
  /** Yours, 1 to 64 characters; the same again replaces the entry. */
  id: string;
  feedback: string;
  /** 1 to 5. */
  rating: number;
  /** Epoch seconds. */
  timestamp: number;
  submitter: Profile;
}

/** A member of the bot's team. */
export interface TeamMember {
  discord_id: string;
  username: string;
  name: string;
  /** A URL. */
  avatar: string;
  /** Title. */
  role: string;
  /** `#RRGGBB`. */
  color: string;
  /** A lower-case word. */
  category: string;
  position: number;
  permissions?: readonly TeamPermission[];
}

type Maybe<T> = T | PromiseLike<T>;

/** What only the bot knows, and how to reach the service. */
export interface Options<Guild = GuildLike> {
  /** The service's address. Default: the variable `COMPANION_URL`. */
  url?: string;
  /** The bot's key. Default: the variable `COMPANION_BOT_KEY`. */
  key?: string;
  /** What the guild's roles grant. Default: nothing. */
  grants?(guild: Guild): Maybe<Grants | null | undefined>;
  /** Whether the guild has configured the bot. Default: no. */
  setup?(guild: Guild): Maybe<boolean>;
  /** Whether the guild has linked its game server. Default: no. */
  linked?(guild: Guild): Maybe<boolean>;
  /** All subscriptions; asked in the process with shard 0 only. Default: the bot does not send them. */
  subscriptions?(): Maybe<Iterable<Subscription> | AsyncIterable<Subscription>>;
  /** The whole team; asked in the process with shard 0 only. Default: the bot does not send it. */
  team?(): Maybe<Iterable<TeamMember>>;
  /** Default: `console`. `null`: silence. */
  logger?: Logger | null;
  /** How staff are found who are not in the library's cache: by asking Discord (default), or not at all. */
  members?: "list" | "cache";
  /** For tests. */
  clock?: Clock;
  /** For tests. */
  transport?: Transport;
  /** Sizes and times other than the defaults. */
  bounds?: Partial<Bounds>;
}

/** What `attach` gives back. Nothing here throws. */
export interface Companion {
  /** Sends a feedback entry; false when too many are waiting or it has no shape. */
  feedback(entry: FeedbackEntry): boolean;
  /** Grants, setup or linked of this guild have changed. Without an id: subscriptions or the team have. */
  changed(guildId?: string): void;
  /** Sends what is waiting, for 5 seconds at most, and stops. */
  close(): Promise<void>;
}

interface Cache<Value> {
  readonly size: number;
  get(key: string): Value | undefined;
  has(key: string): boolean;
  keys(): IterableIterator<string>;
  values(): IterableIterator<Value>;
}

/** As much of a member as is used. */
export interface MemberLike {
  readonly id: string;
  readonly guild: { readonly id: string };
  readonly roles: { readonly cache: { keys(): IterableIterator<string> } };
}

/** As much of a guild as is used. */
export interface GuildLike {
  readonly id: string;
  readonly name: string;
  readonly icon: string | null;
  readonly ownerId: string;
  readonly memberCount: number;
  readonly available: boolean;
  readonly members: {
    readonly cache: Cache<MemberLike>;
    list?(options: { limit: number; after?: string; cache: boolean }): Promise<Cache<MemberLike>>;
  };
  readonly roles: { readonly cache: Cache<unknown> };
}

/** As much of a client as is used: discord.js' own fits. */
export interface ClientLike {
  readonly guilds: { readonly cache: Cache<GuildLike> };
  readonly ws: {
    readonly shards: {
      readonly size: number;
      values(): IterableIterator<{ readonly id: number; readonly ping: number; readonly lastPingTimestamp: number }>;
    };
  };
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- discord.js types these by event
  readonly options: any;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  on(event: any, listener: (...args: any[]) => void): unknown;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  off(event: any, listener: (...args: any[]) => void): unknown;
}

/** The guild type of a client. */
export type GuildOf<Client extends ClientLike> = Client extends {
  guilds: { cache: { values(): IterableIterator<infer Guild> } };
}
  ? Guild
  : GuildLike;

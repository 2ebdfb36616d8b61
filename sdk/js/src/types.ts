import type { Clock } from "./clock.js";
import type { Delivery } from "./feedback.js";
import type { Limits } from "./limits.js";
import type { Events, Logger, StatusReport } from "./status.js";
import type { Transport } from "./transport.js";

/** What a role can grant in a guild. */
export type GuildPermission = "ERLC_MANAGER" | "ERLC_ADMIN" | "ERLC_STAFF" | "ADMIN" | "MOD" | "SESSION_STARTER";

/** What the team's roster can grant a person. */
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

/** An ID as text or as a BigInt; not as a number, which would lose digits. */
export type Id = string | bigint;

/** Maps role IDs to what each role grants. */
export type Grants = Record<string, readonly GuildPermission[]>;

/** The same as a Map, or discord.js' Collection; a role can be used instead of its ID. */
export type GrantsMap = ReadonlyMap<Id | { readonly id: string }, Iterable<GuildPermission>>;

/** Who pays for premium, and for which guilds. */
export interface Subscription {
  userid: Id;
  /** Informational: premium counts on every guild below, however many slots there are. */
  slots: number;
  guilds: readonly Id[];
  /** Epoch seconds or a Date; null if it never ends. */
  active_until: number | Date | null;
}

/** A user's profile. */
export interface Profile {
  id: Id;
  username: string;
  /** Default: the username. */
  name?: string | null;
  /** A URL. Default: the default image. */
  avatar?: string | null;
}

/** A user's feedback about the bot. */
export interface FeedbackEntry {
  /** Your ID for it, 1 to 64 characters; sending it again replaces the entry. */
  id: Id;
  feedback: string;
  /** 1 to 5. */
  rating: number;
  /** Epoch seconds. Default: now. */
  timestamp?: number | null;
  submitter: Profile;
}

/** A member of the bot's team. */
export interface TeamMember {
  discord_id: Id;
  username: string;
  /** Title. */
  role: string;
  /** `#RRGGBB`. */
  color: string;
  /** A lower-case word. */
  category: string;
  /** A whole number: the order on the page. */
  position: number;
  /** Default: the username. */
  name?: string | null;
  /** A URL. Default: the default image. */
  avatar?: string | null;
  /** Default: none. */
  permissions?: readonly TeamPermission[] | null;
}

type Maybe<T> = T | PromiseLike<T>;
type Listed<T> = Maybe<Iterable<T> | AsyncIterable<T>>;

/** The bot's callbacks, and how to reach the service. */
export interface Options<Guild = GuildLike> {
  /** The service's address. Default: the variable `COMPANION_URL`. */
  url?: string | undefined;
  /** The bot's key. Default: the variable `COMPANION_BOT_KEY`. */
  key?: string | undefined;
  /** What the guild's roles grant; `{}` if nothing. Default: nothing. */
  grants?(guild: Guild): Maybe<Grants | GrantsMap>;
  /** Whether the guild has configured the bot. Default: no. */
  setup?(guild: Guild): Maybe<boolean>;
  /** Whether the guild has linked its game server. Default: no. */
  linked?(guild: Guild): Maybe<boolean>;
  /** All subscriptions; only called in the process with shard 0. Default: the bot does not send them. */
  subscriptions?(): Listed<Subscription>;
  /** The whole team; only called in the process with shard 0. Default: the bot does not send it. */
  team?(): Listed<TeamMember>;
  /** A file that keeps feedback until the service has it. Default: the variable `COMPANION_SPOOL`, else none. */
  spool?: string | undefined;
  /** Default: `console`, without debug. `null` for no logging. */
  logger?: Logger | null | undefined;
  /** How to find staff who are not in the library's cache: by asking Discord (default), or not at all. */
  members?: "list" | "cache" | undefined;
  /** Whether to close on SIGTERM, if nothing else listens for it. Default: yes. */
  sigterm?: boolean | undefined;
  /** Limits that differ from the defaults. */
  limits?: Partial<Limits> | undefined;
  /** For tests. */
  clock?: Clock | undefined;
  /** For tests. */
  transport?: Transport | undefined;
}

/** What `attach` returns. Nothing here throws or rejects. */
export interface Companion {
  /** Call this when grants, setup or linked have changed for this guild. Without a guild, everything is sent again. */
  changed(): void;
  changed(guild: Id | { readonly id: string }): void;
  /** Call this when subscriptions have changed. Only the process with shard 0 sends them. */
  subscriptionsChanged(): void;
  /** Call this when the team has changed. Only the process with shard 0 sends it. */
  teamChanged(): void;
  /** Sends a feedback entry, and returns its outcome. */
  feedback(entry: FeedbackEntry): Promise<Delivery>;
  /** Withdraws a feedback entry. */
  feedbackGone(id: Id): Promise<Delivery>;
  /** The current state. */
  status(): StatusReport;
  /** Listens for `synced` or `error`. The returned function removes the listener. */
  on<Name extends keyof Events>(event: Name, listener: (...args: Events[Name]) => void): () => void;
  /** Sends what is waiting, for at most 5 seconds, and stops. */
  close(): Promise<void>;
}

interface Cache<Value> {
  readonly size: number;
  get(key: string): Value | undefined;
  has(key: string): boolean;
  keys(): IterableIterator<string>;
  values(): IterableIterator<Value>;
}

/** The parts of a member that are used. */
export interface MemberLike {
  readonly id: string;
  readonly guild: { readonly id: string };
  readonly roles: { readonly cache: { keys(): IterableIterator<string> } };
  /** Whether the library knows nothing but the ID. */
  readonly partial?: boolean;
}

/** The parts of a guild that are used. */
export interface GuildLike {
  readonly id: string;
  readonly name: string;
  readonly icon: string | null;
  readonly ownerId: string;
  readonly memberCount: number;
  readonly available: boolean;
  readonly members: { readonly cache: Cache<MemberLike> };
}

interface ShardLike {
  readonly id: number;
  readonly ping: number;
  readonly lastPingTimestamp: number;
  /** 0: ready. */
  readonly status?: number;
}

/** The parts of a client that are used; discord.js' own has them. */
export interface ClientLike {
  readonly user?: { readonly username: string } | null;
  readonly guilds: { readonly cache: Cache<GuildLike> & { delete(key: string): boolean } };
  readonly ws: { readonly shards: { readonly size: number; values(): IterableIterator<ShardLike> } };
  /* eslint-disable @typescript-eslint/no-explicit-any -- discord.js types these by event and by route */
  readonly rest?: {
    get(route: any, options?: any): Promise<unknown>;
    on?(event: any, listener: (...args: any[]) => void): unknown;
    off?(event: any, listener: (...args: any[]) => void): unknown;
  };
  readonly options: any;
  on(event: any, listener: (...args: any[]) => void): unknown;
  off(event: any, listener: (...args: any[]) => void): unknown;
  /* eslint-enable @typescript-eslint/no-explicit-any */
}

/** The guild type of a client. */
export type GuildOf<Client extends ClientLike> = Client extends {
  guilds: { cache: { values(): IterableIterator<infer Guild> } };
}
  ? Guild
  : GuildLike;

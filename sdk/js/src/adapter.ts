import type { Clock } from "./clock.js";
import type { Core } from "./core.js";
import type { Status } from "./status.js";
import type { ClientLike, GuildLike, MemberLike } from "./types.js";
import { type GuildFields, type Member, PAGE, type ShardReport, type World, lacksIntent, shardOf } from "./world.js";

const GUILDS_INTENT = 1 << 0;
const MEMBERS_INTENT = 1 << 1;
/** discord.js' `Status.Ready`. */
const SHARD_READY = 0;
/** How long a 429 limits the bot if it doesn't say. */
const UNNAMED_LIMIT = 1_000;

interface Packet {
  t?: string | null;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- whatever Discord sends
  d?: any;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each event has its own
type Listener = (...args: any[]) => void;

/** A request from the REST client. */
interface RequestLike {
  path?: string;
}

/** Its response, with `fetch`'s names or, as in discord.js 14.11, undici's. */
interface ResponseLike {
  status?: number;
  statusCode?: number;
  headers?: { get?(name: string): string | null; [name: string]: unknown };
}

/** discord.js: reads the client's cache and listens to its events. */
export class Adapter implements World {
  readonly membersIntent = "GuildMembers";
  readonly #client: ClientLike;
  readonly #clock: Clock;
  readonly #status: Status;
  readonly #mayList: boolean;
  /** Each removes one listener. */
  readonly #listeners: (() => void)[] = [];
  #limited: (ms: number) => void = () => {};
  /** Guilds in the cache that the bot left while it had no session. */
  readonly #former = new Set<string>();
  /** Pages in progress by path. Each is cancelled if Discord rate limits it. */
  readonly #pages = new Map<string, (error: Error) => void>();

  constructor(client: ClientLike, clock: Clock, status: Status, members: "list" | "cache") {
    this.#client = client;
    this.#clock = clock;
    this.#status = status;
    this.#mayList = members === "list";
  }

  // --- called by the core

  name(): string | null {
    return this.#client.user?.username ?? null;
  }

  /** The library's name as sent to Discord; some of its versions send none. */
  library(): string {
    const agent: unknown = this.#client.options.rest?.userAgentAppendix;
    const [, version] = /^discord\.js\/(\d[\w.+-]*)/.exec(typeof agent === "string" ? agent : "") ?? [];
    return version ? `discord.js ${version}` : "discord.js";
  }

  shardCount(): number {
    const count = Number(this.#client.options.shardCount);
    return Number.isInteger(count) && count > 0 ? count : Math.max(1, this.#client.ws.shards.size);
  }

  shards(): ShardReport[] {
    // Private in the library's own types. It means that the client was destroyed without closing us.
    const { destroyed } = this.#client.ws as { destroyed?: unknown };
    if (destroyed === true) return [];
    const now = this.#clock.now();
    return [...this.#client.ws.shards.values()].map(({ id, ping, lastPingTimestamp }) => {
      // discord.js returns -1 until it knows.
      const latency = ping >= 0 ? ping : null;
      const sent = lastPingTimestamp > 0 ? Math.max(0, now - lastPingTimestamp) : null;
      const acknowledged = sent !== null && latency !== null ? Math.max(0, sent - latency) : null;
      return { id, sent_ms_ago: sent, acknowledged_ms_ago: acknowledged, latency };
    });
  }

  guildIds(shard: number): string[] {
    const count = this.shardCount();
    return [...this.#client.guilds.cache.keys()].filter((id) => shardOf(id, count) === shard);
  }

  guild(id: string): GuildFields | "unavailable" | null {
    const guild = this.#client.guilds.cache.get(id);
    if (!guild) return null;
    if (!guild.available) return "unavailable";
    return { id, name: guild.name, icon: guild.icon ?? null, owner: guild.ownerId, members: guild.memberCount };
  }

  cachedMembers(id: string): Iterable<Member> | null {
    const guild = this.#client.guilds.cache.get(id);
    // Without the intent, Discord does not report changes: the cache may be complete but wrong.
    const hasAll = guild !== undefined && guild.members.cache.size >= guild.memberCount;
    if (!hasAll || !this.#has(MEMBERS_INTENT)) return null;
    for (const member of guild.members.cache.values()) if (member.partial) return null;
    return membersOf(guild.members.cache.values());
  }

  listingObstacle(): string | null {
    if (!this.#has(MEMBERS_INTENT)) return lacksIntent(this.membersIntent);
    if (this.#mayList && this.#client.rest) return null;
    return 'the option members is "cache", and the cache lacks members: the staff of such guilds is not sent until the bot has fetched all of them';
  }

  /** Uses the REST client directly, because the library's own call would cache every member's user. */
  async listMembers(guild: string, after: string, signal: AbortSignal): Promise<Member[]> {
    const path = `/guilds/${guild}/members` as const;
    const query = new URLSearchParams({ limit: String(PAGE), after });
    const abort = new AbortController();
    const end = (): void => abort.abort();
    signal.addEventListener("abort", end, { once: true });
    try {
      const limited = new Promise<never>((_, reject) => this.#pages.set(path, reject));
      const asked = Promise.resolve(this.#client.rest?.get(path, { query, signal: abort.signal }));
      asked.catch(() => {});
      const page = (await Promise.race([asked, limited])) as { user: { id: string }; roles: string[] }[];
      return page.map(({ user, roles }) => ({ id: user.id, roles }));
    } catch (error) {
      throw this.#limitOf(error);
    } finally {
      this.#pages.delete(path);
      signal.removeEventListener("abort", end);
      // The library would retry a rate-limited page on its own, outside the budget.
      abort.abort();
    }
  }

  // --- events from the library

  /** Starts listening to the client. */
  listen(core: Core): void {
    const safely = (listener: Listener): Listener => (...args) => core.hear(guildNamedIn(args), () => listener(...args));
    const on = (event: string, listener: Listener): void => {
      const safe = safely(listener);
      this.#listeners.push(() => this.#client.off(event, safe));
      this.#client.on(event, safe);
    };
    this.#limited = (ms) => core.limited(ms);
    this.#hearResponses(safely((request: RequestLike, response: ResponseLike) => this.#response(request, response)));
    on("raw", (packet: Packet, shard: number) => this.#packet(core, packet, shard));
    on("shardReady", (shard: number) => core.ready(shard));
    on("guildUpdate", (_old: GuildLike, guild: GuildLike) => core.guildChanged(guild.id));
    on("roleCreate", (role: { id: string; guild: GuildLike }) => core.roleChanged(role.guild.id));
    on("roleUpdate", (_old: unknown, role: { id: string; guild: GuildLike }) => core.roleChanged(role.guild.id));
    on("roleDelete", (role: { id: string; guild: GuildLike }) => core.roleGone(role.guild.id, role.id));
    // The library may handle a packet some time after it arrives, so its cache may have been out of date when we read it.
    on("guildMemberUpdate", (_old: MemberLike, member: MemberLike) => core.member(member.guild.id, member.id, member.roles.cache.keys()));
    // Attached after the login: these shards won't report again that they are ready.
    for (const { id, status } of this.#client.ws.shards.values()) if (status === SHARD_READY) core.ready(id);
  }

  /** Stops listening. */
  deafen(): void {
    for (const take of this.#listeners.splice(0)) take();
  }

  /** The REST client's `rateLimited` reports requests that it holds back itself; only `response` reports every real 429. */
  #hearResponses(listener: Listener): void {
    const { rest } = this.#client;
    if (typeof rest?.on !== "function" || typeof rest.off !== "function") return;
    rest.on("response", listener);
    this.#listeners.push(() => rest.off?.("response", listener));
  }

  #response(request: RequestLike, response: ResponseLike): void {
    if ((response.status ?? response.statusCode) !== 429) return;
    this.#limited(retryAfter(response));
    this.#pages.get(request.path ?? "")?.(Object.assign(new Error("Discord is rate limiting the bot"), { status: 429 }));
  }

  /** A client with the option `rejectOnRateLimit` throws on a rate limit, even one that it only expects. */
  #limitOf(error: unknown): unknown {
    const { name, retryAfter: ms } = (error ?? {}) as { name?: unknown; retryAfter?: unknown };
    if (typeof name !== "string" || !name.startsWith("RateLimitError")) return error;
    this.#limited(typeof ms === "number" && ms >= 0 ? ms : UNNAMED_LIMIT);
    return Object.assign(new Error("Discord is rate limiting the bot"), { status: 429 });
  }

  /** What Discord sends, before the library handles it. The library doesn't report members it has never seen, or guilds that arrive before all shards are ready. */
  #packet(core: Core, { t, d }: Packet, shard: number): void {
    switch (t) {
      case "READY":
        this.#checkGuildsIntent();
        return this.#session(core, shard, (d.guilds as { id: string }[]).map(({ id }) => id));
      case "GUILD_CREATE":
        // The library would ignore this packet and keep the old guild.
        if (this.#former.delete(d.id)) this.#client.guilds.cache.delete(d.id);
        return d.unavailable ? core.guildUnavailable(d.id) : core.guildHere(d.id);
      case "GUILD_DELETE":
        this.#former.delete(d.id);
        return d.unavailable ? core.guildUnavailable(d.id) : core.guildGone(d.id);
      case "GUILD_MEMBER_ADD":
        return core.memberJoined(d.guild_id, d.user.id, d.roles ?? []);
      case "GUILD_MEMBER_UPDATE":
        return core.member(d.guild_id, d.user.id, d.roles ?? []);
      case "GUILD_MEMBER_REMOVE":
        return core.memberGone(d.guild_id, d.user.id);
      case "GUILD_MEMBERS_CHUNK":
        // The library adds its members to the cache after this.
        if (d.chunk_index === d.chunk_count - 1) setImmediate(() => core.membersCached(d.guild_id)).unref();
    }
  }

  #session(core: Core, shard: number, guilds: string[]): void {
    const named = new Set(guilds);
    for (const id of this.guildIds(shard)) if (!named.has(id)) this.#former.add(id);
    for (const id of guilds) this.#former.delete(id);
    core.session(shard, guilds);
  }

  #checkGuildsIntent(): void {
    if (this.#has(GUILDS_INTENT)) return;
    this.#status.warnOnce("intent guilds", "the client lacks the intent Guilds: Discord does not send the bot's guilds. Add it to the client's intents");
  }

  #has(intent: number): boolean {
    const bits: unknown = this.#client.options.intents?.bitfield ?? this.#client.options.intents;
    return typeof bits !== "number" || (bits & intent) !== 0;
  }
}

/** The guild of a packet, or of the library's own object; null if there is none. */
function guildNamedIn(args: unknown[]): string | null {
  const packet = args[0] as Packet | null;
  const about = (packet?.d ?? args.at(-1)) as { guild_id?: unknown; guild?: { id?: unknown }; id?: unknown } | null;
  const guild = about?.guild_id ?? about?.guild?.id ?? about?.id;
  return typeof guild === "string" && /^\d+$/.test(guild) ? guild : null;
}

function* membersOf(members: Iterable<MemberLike>): Generator<Member> {
  for (const { id, roles } of members) yield { id, roles: roles.cache.keys() };
}

/** How long a 429 limits the bot, in milliseconds. Its body is more precise, but only the library may read it. */
function retryAfter({ headers }: ResponseLike): number {
  const given: unknown = typeof headers?.get === "function" ? headers.get("retry-after") : headers?.["retry-after"];
  const seconds = given === null || given === undefined || given === "" ? NaN : Number(given);
  return seconds >= 0 ? seconds * 1_000 : UNNAMED_LIMIT;
}

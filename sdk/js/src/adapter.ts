import type { Clock } from "./clock.js";
import type { Core } from "./core.js";
import type { Status } from "./status.js";
import type { ClientLike, GuildLike, MemberLike } from "./types.js";
import { type GuildFields, type Member, PAGE, type ShardReport, type World, lacksIntent, shardOf } from "./world.js";

const GUILDS_INTENT = 1 << 0;
const MEMBERS_INTENT = 1 << 1;
/** discord.js' `Status.Ready`. */
const SHARD_READY = 0;

interface Packet {
  t?: string | null;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- whatever Discord sends
  d?: any;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each event has its own
type Listener = (...args: any[]) => void;

/** discord.js: reads the client's cache, hears its events. */
export class Adapter implements World {
  readonly membersIntent = "GuildMembers";
  readonly #client: ClientLike;
  readonly #clock: Clock;
  readonly #status: Status;
  readonly #mayList: boolean;
  readonly #listeners: [string, Listener][] = [];

  constructor(client: ClientLike, clock: Clock, status: Status, members: "list" | "cache") {
    this.#client = client;
    this.#clock = clock;
    this.#status = status;
    this.#mayList = members === "list";
  }

  // --- what the core asks

  name(): string | null {
    return this.#client.user?.username ?? null;
  }

  /** As the library names itself to Discord; some of its versions do not. */
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
    // Private in the library's own types: the client was destroyed without closing us.
    const { destroyed } = this.#client.ws as { destroyed?: unknown };
    if (destroyed === true) return [];
    const now = this.#clock.now();
    return [...this.#client.ws.shards.values()].map(({ id, ping, lastPingTimestamp }) => {
      // discord.js says -1 as long as it does not know.
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
    // Without the intent Discord does not tell of changes: the cache may be complete, and wrong.
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

  /** By the REST client directly: the library's own call would put every member's user into its cache. */
  async listMembers(guild: string, after: string, signal: AbortSignal): Promise<Member[]> {
    const query = new URLSearchParams({ limit: String(PAGE), after });
    const page = (await this.#client.rest?.get(`/guilds/${guild}/members`, { query, signal })) as { user: { id: string }; roles: string[] }[];
    return page.map(({ user, roles }) => ({ id: user.id, roles }));
  }

  // --- what the library says

  /** Hears the client from now on. */
  listen(core: Core): void {
    const on = (event: string, listener: Listener): void => {
      const safe: Listener = (...args) => {
        try {
          listener(...args);
        } catch (error) {
          this.#status.fault(error);
        }
      };
      this.#listeners.push([event, safe]);
      this.#client.on(event, safe);
    };
    on("raw", (packet: Packet, shard: number) => this.#packet(core, packet, shard));
    on("shardReady", (shard: number) => core.ready(shard));
    on("guildUpdate", (_old: GuildLike, guild: GuildLike) => core.guildChanged(guild.id));
    on("roleCreate", (role: { id: string; guild: GuildLike }) => core.roleChanged(role.guild.id));
    on("roleUpdate", (_old: unknown, role: { id: string; guild: GuildLike }) => core.roleChanged(role.guild.id));
    on("roleDelete", (role: { id: string; guild: GuildLike }) => core.roleGone(role.guild.id, role.id));
    // The library may handle a packet later than it comes, so that its cache was older when it was read.
    on("guildMemberUpdate", (_old: MemberLike, member: MemberLike) => core.member(member.guild.id, member.id, member.roles.cache.keys()));
    // Attached after the login: these will not say again that they are ready.
    for (const { id, status } of this.#client.ws.shards.values()) if (status === SHARD_READY) core.ready(id);
  }

  /** Hears nothing any more. */
  deafen(): void {
    for (const [event, listener] of this.#listeners) this.#client.off(event, listener);
    this.#listeners.length = 0;
  }

  /** What Discord sends, before the library handles it. The library does not tell of members that it never met, nor of guilds that come before all shards are ready. */
  #packet(core: Core, { t, d }: Packet, shard: number): void {
    switch (t) {
      case "READY":
        this.#checkGuildsIntent();
        return core.session(shard, (d.guilds as { id: string }[]).map(({ id }) => id));
      case "GUILD_CREATE":
        return d.unavailable ? core.guildUnavailable(d.id) : core.guildHere(d.id);
      case "GUILD_DELETE":
        return d.unavailable ? core.guildUnavailable(d.id) : core.guildGone(d.id);
      case "GUILD_MEMBER_ADD":
        return core.memberJoined(d.guild_id, d.user.id, d.roles ?? []);
      case "GUILD_MEMBER_UPDATE":
        return core.member(d.guild_id, d.user.id, d.roles ?? []);
      case "GUILD_MEMBER_REMOVE":
        return core.memberGone(d.guild_id, d.user.id);
      case "GUILD_MEMBERS_CHUNK":
        // The library takes its members into the cache after this.
        if (d.chunk_index === d.chunk_count - 1) setImmediate(() => core.membersCached(d.guild_id)).unref();
    }
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

function* membersOf(members: Iterable<MemberLike>): Generator<Member> {
  for (const { id, roles } of members) yield { id, roles: roles.cache.keys() };
}

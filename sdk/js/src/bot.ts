import { isMainThread } from "node:worker_threads";
import { type Clock, within } from "./clock.js";
import { type Change, Feed, type Source, shardOf } from "./feed.js";
import { type SafeLogger, reasonOf } from "./logger.js";
import { Staff } from "./staff.js";
import type { ClientLike, Grants, GuildLike, MemberLike, Options } from "./types.js";

const GRANTABLE = new Set(["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"]);
/** The service's bounds. */
const NAME_CHARACTERS = 100;
const ROLES = 250;
/** What a callback of the bot may take. */
const CALLBACK = 10_000;
const GUILDS_INTENT = 1 << 0;
const MEMBERS_INTENT = 1 << 1;
const SNOWFLAKE = /^[1-9][0-9]{0,19}$/;

/** What the callbacks said of a guild. */
interface Facts {
  setup: boolean;
  linked: boolean;
  grants: Grants;
}

interface Packet {
  t?: string | null;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- whatever Discord sends
  d?: any;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each event has its own
type Listener = (...args: any[]) => void;

/** The bot's side: reads the library's client, hears its events. */
export class Bot implements Source {
  readonly #client: ClientLike;
  readonly #options: Options;
  readonly #clock: Clock;
  readonly #log: SafeLogger;
  readonly #startedAt: number;
  readonly #instance: string;
  readonly #staff: Staff;
  readonly #facts = new Map<string, Facts>();
  /** Per shard the guilds that Discord named: the library's cache keeps those that were left while it was away. */
  readonly #named = new Map<number, Set<string>>();
  readonly #listeners: [string, Listener][] = [];
  #feed: Feed | null = null;

  constructor(client: ClientLike, options: Options, clock: Clock, log: SafeLogger, instance: string) {
    this.#client = client;
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#instance = instance;
    this.#startedAt = clock.now();
    this.#staff = new Staff(
      clock,
      log,
      (guild) => client.guilds.cache.get(guild),
      () => options.members !== "cache" && this.#intends(MEMBERS_INTENT, "GuildMembers: staff are those that the library knows"),
      (guild) => this.#feed?.change({ type: "guild", guild }),
    );
  }

  // --- what the feed asks

  shardCount(): number {
    const count = Number(this.#client.options.shardCount);
    return Number.isInteger(count) && count > 0 ? count : Math.max(1, this.#client.ws.shards.size);
  }

  heartbeat(): object | null {
    // Private in the library's own types: the client was destroyed without closing us.
    const { destroyed } = this.#client.ws as { destroyed?: unknown };
    if (this.#client.ws.shards.size === 0 || destroyed === true) return null;
    const now = this.#clock.now();
    const shards = [...this.#client.ws.shards.values()].map(({ id, ping, lastPingTimestamp }) => {
      // discord.js says -1 as long as it does not know.
      const latency = ping >= 0 ? ping : null;
      const sent = lastPingTimestamp > 0 ? Math.max(0, now - lastPingTimestamp) : null;
      const acknowledged = sent !== null && latency !== null ? Math.max(0, sent - latency) : null;
      return { id, sent_ms_ago: sent, acknowledged_ms_ago: acknowledged, latency };
    });
    return {
      instance: this.#instance,
      started_at: this.#startedAt / 1_000,
      memory: memory(),
      library: library(this.#client),
      shard_count: this.shardCount(),
      shards,
    };
  }

  guildIds(shard: number): string[] {
    const count = this.shardCount();
    const named = this.#named.get(shard);
    const ids = new Set<string>();
    for (const id of this.#client.guilds.cache.keys()) {
      if (shardOf(id, count) === shard && (!named || named.has(id))) ids.add(id);
    }
    // Named by Discord, unknown to the library: an outage since the start.
    if (named) for (const id of named) ids.add(id);
    return [...ids];
  }

  async snapshotLine(id: string): Promise<object | null> {
    const guild = this.#client.guilds.cache.get(id);
    if (!guild) return this.#named.get(shardOf(id, this.shardCount()))?.has(id) ? { id, unavailable: true } : null;
    if (!guild.available) return { id, unavailable: true };
    const facts = await this.#ask(guild);
    const staff = facts && (await this.#staff.of(guild, grantingRoles(guild, facts.grants)));
    if (facts && staff) return describe(guild, facts, staff);
    // It stays as it is stored, and what is known of it follows.
    if (facts) this.#feed?.facts(id);
    return { id, unavailable: true };
  }

  async eventLine(change: Change): Promise<object | null> {
    switch (change.type) {
      case "guild":
      case "guild_facts": {
        const guild = this.#client.guilds.cache.get(change.guild);
        if (!guild?.available) return null;
        const whole = change.type === "guild";
        const facts = (whole ? await this.#ask(guild) : null) ?? this.#facts.get(guild.id) ?? (await this.#ask(guild));
        if (!facts) return null;
        // Absent, they stay as the service holds them.
        const staff = whole ? await this.#staff.of(guild, grantingRoles(guild, facts.grants)) : null;
        return { type: "guild", ...describe(guild, facts, staff) };
      }
      case "guild_gone":
        return { type: "guild_gone", id: change.guild };
      case "member":
        return { type: "member", guild: change.guild, user: change.user, roles: change.roles };
      case "member_gone":
        return { type: "member_gone", guild: change.guild, user: change.user };
    }
  }

  async subscriptions(): Promise<object[] | null> {
    if (!this.#options.subscriptions) return null;
    const all: object[] = [];
    const given = await this.#within("subscriptions()", this.#options.subscriptions());
    for await (const { userid, slots, guilds, active_until } of given) {
      all.push({ userid, slots, guilds, active_until });
      if (all.length % 1_000 === 0) await this.#clock.breathe();
    }
    return all;
  }

  async team(): Promise<object[] | null> {
    if (!this.#options.team) return null;
    return [...(await this.#within("team()", this.#options.team()))];
  }

  // --- what the bot says

  /** The bot's own knowledge of a guild has changed. */
  changed(guild: string): void {
    if (SNOWFLAKE.test(guild)) this.#feed?.change({ type: "guild", guild });
  }

  /** Hears the client from now on. */
  listen(feed: Feed): void {
    this.#feed = feed;
    const on = (event: string, listener: Listener): void => {
      const safe: Listener = (...args) => {
        try {
          listener(...args);
        } catch (error) {
          this.#log.once("error", `on ${event}: ${reasonOf(error)}`);
        }
      };
      this.#listeners.push([event, safe]);
      this.#client.on(event, safe);
    };
    const roles = (member: MemberLike): string[] => [...member.roles.cache.keys()];

    on("raw", (packet: Packet, shard: number) => this.#packet(packet, shard));
    on("shardReady", (shard: number) => this.#shardReady(shard));
    on("guildCreate", (guild: GuildLike) => this.#here(guild.id));
    on("guildAvailable", (guild: GuildLike) => this.#here(guild.id));
    on("guildDelete", (guild: GuildLike) => this.#gone(guild.id));
    on("guildUpdate", (_old: GuildLike, guild: GuildLike) => feed.change({ type: "guild_facts", guild: guild.id }));
    on("roleDelete", (role: { id: string; guild: GuildLike }) => {
      if (this.#staff.roleGone(role.guild.id, role.id)) feed.change({ type: "guild", guild: role.guild.id });
    });
    on("guildMemberAdd", (member: MemberLike) => {
      this.#member(member.guild.id, member.id, roles(member));
      feed.memberCount(member.guild.id);
    });
    on("guildMemberUpdate", (_old: MemberLike, member: MemberLike) => {
      this.#member(member.guild.id, member.id, roles(member));
    });
    on("guildMemberRemove", (member: MemberLike) => {
      this.#memberGone(member.guild.id, member.id);
      feed.memberCount(member.guild.id);
    });
  }

  /** Hears nothing any more. */
  deafen(): void {
    for (const [event, listener] of this.#listeners) this.#client.off(event, listener);
    this.#listeners.length = 0;
    this.#staff.close();
  }

  /**
   * What Discord sends, before the library has handled it. The library does not tell of members that it never met, nor
   * of guilds that come before all shards are ready. What it does tell comes twice, and is sent once.
   */
  #packet({ t, d }: Packet, shard: number): void {
    switch (t) {
      case "READY":
        this.#named.set(shard, new Set((d.guilds as { id: string }[]).map(({ id }) => id)));
        this.#feed?.shardLost(shard);
        this.#intends(GUILDS_INTENT, "Guilds: Discord does not send the bot's guilds");
        break;
      case "GUILD_CREATE":
        this.#named.get(shard)?.add(d.id);
        if (!d.unavailable) this.#here(d.id);
        break;
      case "GUILD_DELETE":
        if (d.unavailable) break;
        this.#named.get(shard)?.delete(d.id);
        this.#gone(d.id);
        break;
      case "GUILD_MEMBER_ADD":
      case "GUILD_MEMBER_UPDATE":
        this.#member(d.guild_id, d.user.id, d.roles ?? []);
        if (t === "GUILD_MEMBER_ADD") this.#feed?.memberCount(d.guild_id);
        break;
      case "GUILD_MEMBER_REMOVE":
        this.#memberGone(d.guild_id, d.user.id);
        this.#feed?.memberCount(d.guild_id);
        break;
    }
  }

  #shardReady(shard: number): void {
    // Between two sessions members may have changed unheard.
    this.#staff.doubt(this.guildIds(shard));
    this.#feed?.shardReady(shard);
  }

  #here(guild: string): void {
    this.#feed?.change({ type: "guild", guild });
  }

  #gone(guild: string): void {
    this.#facts.delete(guild);
    this.#staff.forget(guild);
    this.#feed?.change({ type: "guild_gone", guild });
  }

  #member(guild: string, user: string, roles: string[]): void {
    const granting = this.#staff.member(guild, user, roles);
    if (granting) this.#feed?.change({ type: "member", guild, user, roles: granting });
  }

  #memberGone(guild: string, user: string): void {
    this.#staff.gone(guild, user);
    this.#feed?.change({ type: "member_gone", guild, user });
  }

  // --- callbacks

  /** What only the bot knows of a guild; null when it cannot say. */
  async #ask(guild: GuildLike): Promise<Facts | null> {
    const { grants, setup, linked } = this.#options;
    if (!grants && !setup && !linked) return NOTHING;
    try {
      const [isSetup, isLinked, granted] = await Promise.all([
        setup ? this.#within("setup()", setup(guild)) : false,
        linked ? this.#within("linked()", linked(guild)) : false,
        grants ? this.#within("grants()", grants(guild)) : null,
      ]);
      const facts = { setup: Boolean(isSetup), linked: Boolean(isLinked), grants: this.#sane(granted ?? {}) };
      this.#facts.set(guild.id, facts);
      return facts;
    } catch (error) {
      this.#log.once("warn", `a callback failed; the guild stays as the service holds it and is asked for again: ${reasonOf(error)}`);
      this.#feed?.later(guild.id);
      return null;
    }
  }

  #within<T>(what: string, given: T | PromiseLike<T>): Promise<T> {
    return within(this.#clock, CALLBACK, what, Promise.resolve(given));
  }

  #sane(grants: Grants): Grants {
    const sane: Record<string, Grants[string]> = {};
    for (const [role, keys] of Object.entries(grants).slice(0, ROLES)) {
      const known = [...keys].filter((key) => GRANTABLE.has(key));
      if (SNOWFLAKE.test(role) && known.length > 0) sane[role] = known;
      if (known.length < keys.length) this.#log.once("warn", `grants() names what no role can grant: ${keys.join(", ")}`);
    }
    return sane;
  }

  #intends(intent: number, consequence: string): boolean {
    const bits: unknown = this.#client.options.intents?.bitfield ?? this.#client.options.intents;
    if (typeof bits !== "number" || (bits & intent) !== 0) return true;
    this.#log.once("warn", `the client has no intent ${consequence}`);
    return false;
  }
}

const NOTHING: Facts = { setup: false, linked: false, grants: {} };

function grantingRoles(guild: GuildLike, grants: Grants): Set<string> {
  // The guild's own id stands for everyone, who need not be listed.
  return new Set(Object.keys(grants).filter((role) => role !== guild.id));
}

function describe(guild: GuildLike, facts: Facts, staff: Record<string, string[]> | null): object {
  return {
    id: guild.id,
    name: text(guild.name),
    icon: guild.icon ?? null,
    owner: guild.ownerId,
    members: Math.max(0, guild.memberCount || 0),
    setup: facts.setup,
    linked: facts.linked,
    grants: facts.grants,
    ...(staff ? { staff } : {}),
  };
}

/** A name as JSON parsers other than ours accept it: no half of a surrogate pair, not over the bound. */
function text(name: string): string {
  return Array.from(name.replace(/\p{Surrogate}/gu, "\ufffd")).slice(0, NAME_CHARACTERS).join("");
}

/** Of this process; in a worker thread only the thread's own, since the process is also every other worker's. */
function memory(): number {
  if (isMainThread) return process.memoryUsage.rss();
  const usage = process.memoryUsage();
  return usage.heapTotal + usage.external;
}

/** As the library names itself to Discord. */
function library(client: ClientLike): string | null {
  const agent: unknown = client.options.rest?.userAgentAppendix;
  const [, name, version] = /^([\w.@/-]+)\/(\d[\w.+-]*)/.exec(typeof agent === "string" ? agent : "") ?? [];
  return name && version ? `${name} ${version}` : null;
}

import type { Clock } from "./clock.js";
import { type SafeLogger, reasonOf } from "./logger.js";
import type { GuildLike, MemberLike } from "./types.js";

/** The service's bound on the staff of a guild. */
const MOST_STAFF = 10_000;
/** Members that are looked at before the event loop gets its turn. */
const SLICE = 5_000;
const PAGE = 1_000;
/** Between two pages: Discord's limits are there for the bot, not for us. */
const PAGE_PAUSE = 250;

interface Known {
  /** The roles that grant something. */
  roles: Set<string>;
  /** User to those of their roles that grant something. */
  members: Map<string, string[]>;
  /** Whether every member has been looked at once for some set of roles. */
  complete: boolean;
}

/**
 * Who holds a granting role. discord.js keeps only the members that it happened to meet, so the others are listed from
 * Discord, page by page and without filling the bot's cache, and kept up to date by the events.
 */
export class Staff {
  readonly #clock: Clock;
  readonly #log: SafeLogger;
  readonly #find: (guild: string) => GuildLike | undefined;
  readonly #mayList: () => boolean;
  readonly #listed: (guild: string) => void;
  readonly #known = new Map<string, Known>();
  readonly #queue = new Set<string>();
  #listing: { guild: string; meanwhile: Map<string, string[] | null> } | null = null;
  #running = false;
  #forbidden = false;
  #closed = false;

  constructor(
    clock: Clock,
    log: SafeLogger,
    find: (guild: string) => GuildLike | undefined,
    mayList: () => boolean,
    listed: (guild: string) => void,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#find = find;
    this.#mayList = mayList;
    this.#listed = listed;
  }

  /** The staff under these granting roles; null while nothing is known that could replace what the service holds. */
  async of(guild: GuildLike, roles: Set<string>): Promise<Record<string, string[]> | null> {
    if (roles.size === 0) {
      this.forget(guild.id);
      return {};
    }
    let known = this.#known.get(guild.id);
    if (!known) {
      known = { roles, members: new Map(), complete: false };
      this.#known.set(guild.id, known);
      await this.#scan(guild, known);
    } else {
      const wider = [...roles].some((role) => !known?.roles.has(role));
      known.roles = roles;
      if (wider) await this.#scan(guild, known);
    }
    return known.complete ? this.#told(guild.id, known) : null;
  }

  /** Whether this news matters, and what of the roles does; null when it does not. */
  member(guild: string, user: string, roles: Iterable<string>): string[] | null {
    const known = this.#known.get(guild);
    if (!known) return null;
    const granting = [...roles].filter((role) => known.roles.has(role));
    if (this.#listing?.guild === guild) this.#listing.meanwhile.set(user, granting);
    const was = known.members.get(user);
    if (granting.length > 0) {
      if (was || known.members.size < MOST_STAFF) known.members.set(user, granting);
    } else {
      known.members.delete(user);
    }
    if (known.complete && granting.join() === (was ?? []).join()) return null;
    return granting;
  }

  gone(guild: string, user: string): void {
    this.#known.get(guild)?.members.delete(user);
    if (this.#listing?.guild === guild) this.#listing.meanwhile.set(user, null);
  }

  forget(guild: string): void {
    this.#known.delete(guild);
    this.#queue.delete(guild);
  }

  /** A role is no more; whether it granted something. */
  roleGone(guild: string, role: string): boolean {
    const known = this.#known.get(guild);
    if (!known?.roles.has(role)) return false;
    for (const [user, roles] of known.members) {
      const left = roles.filter((one) => one !== role);
      if (left.length > 0) known.members.set(user, left);
      else known.members.delete(user);
    }
    return true;
  }

  /** While the bot was away members may have changed without an event. */
  doubt(guilds: Iterable<string>): void {
    for (const guild of guilds) this.#known.delete(guild);
  }

  close(): void {
    this.#closed = true;
    this.#queue.clear();
  }

  #told(guild: string, known: Known): Record<string, string[]> {
    const staff: Record<string, string[]> = {};
    for (const [user, roles] of known.members) {
      const granting = roles.filter((role) => known.roles.has(role));
      if (granting.length > 0) staff[user] = granting;
    }
    if (known.members.size >= MOST_STAFF) this.#log.once("warn", `guild ${guild} has more than ${MOST_STAFF} staff: the rest is left out`);
    return staff;
  }

  async #scan(guild: GuildLike, known: Known): Promise<void> {
    const cached = guild.members.cache;
    const all = cached.size >= guild.memberCount;
    let seen = 0;
    for (const member of cached.values()) {
      this.#meet(known, member);
      if (++seen % SLICE === 0) await this.#clock.breathe();
    }
    if (all || this.#forbidden || !this.#mayList() || !guild.members.list) {
      known.complete = true;
      return;
    }
    this.#queue.add(guild.id);
    if (!this.#running) {
      this.#running = true;
      this.#drain()
        .catch((error: unknown) => this.#log.once("error", `listing members: ${reasonOf(error)}`))
        .finally(() => {
          this.#running = false;
        });
    }
  }

  #meet(known: Known, member: MemberLike): void {
    const granting = [...member.roles.cache.keys()].filter((role) => known.roles.has(role));
    if (granting.length > 0 && (known.members.size < MOST_STAFF || known.members.has(member.id))) {
      known.members.set(member.id, granting);
    }
  }

  async #drain(): Promise<void> {
    for (const id of this.#queue) {
      this.#queue.delete(id);
      const guild = this.#find(id);
      const known = this.#known.get(id);
      if (!guild || !known) continue;
      const meanwhile = new Map<string, string[] | null>();
      this.#listing = { guild: id, meanwhile };
      const found: Known = { roles: known.roles, members: new Map(), complete: true };
      try {
        if (this.#forbidden) throw new Error("forbidden");
        await this.#list(guild, found);
        for (const [user, roles] of meanwhile) {
          if (roles && roles.length > 0) found.members.set(user, roles);
          else found.members.delete(user);
        }
        known.members = found.members;
      } catch (error) {
        const { status } = error as { status?: unknown };
        // Refused once, refused for every guild; and too many refusals get the bot's address banned.
        if (status === 401 || status === 403) this.#forbidden = true;
        if (!this.#forbidden || status) this.#log.once("warn", `members cannot be listed, staff are those that the library knows: ${reasonOf(error)}`);
      } finally {
        this.#listing = null;
      }
      known.complete = true;
      if (this.#closed) return;
      // The roles may have become more while their holders were listed.
      if (known.roles !== found.roles && [...known.roles].some((role) => !found.roles.has(role))) this.#queue.add(id);
      this.#listed(id);
    }
  }

  async #list(guild: GuildLike, found: Known): Promise<void> {
    let after = "0";
    for (;;) {
      const page = await guild.members.list?.({ limit: PAGE, after, cache: false });
      if (!page || this.#closed) return;
      for (const member of page.values()) {
        this.#meet(found, member);
        if (BigInt(member.id) > BigInt(after)) after = member.id;
      }
      if (page.size < PAGE) return;
      await new Promise<void>((resolve) => this.#clock.after(PAGE_PAUSE, resolve));
    }
  }
}

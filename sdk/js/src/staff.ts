import type { Clock } from "./clock.js";
import type { Status } from "./status.js";
import { type Member, type World, compareIds } from "./world.js";

/** The service's limit on the staff of a guild. */
const MOST_STAFF = 10_000;
/** How many members to check before yielding to the event loop. */
const SLICE = 1_000;

/** Maps users to their granting roles. */
type Holders = Map<string, string[]>;

interface GuildStaff {
  /** The roles that grant something. */
  roles: ReadonlySet<string>;
  /** Who has one of them: complete, and kept up to date by events. Null if not completely known. */
  known: Holders | null;
  /** A scan of all members in progress. */
  survey: Survey | null;
}

/** A scan of all of a guild's members, from the cache or page by page. */
export class Survey {
  readonly roles: ReadonlySet<string>;
  readonly #found: Holders = new Map();
  /** What events have said meanwhile, which is newer than what the scan found. Null if the member left. */
  readonly #meanwhile = new Map<string, string[] | null>();
  /** A role was deleted, so members found earlier may still appear to have it. */
  isOutdated = false;

  constructor(roles: ReadonlySet<string>) {
    this.roles = roles;
  }

  add({ id, roles }: Member): void {
    const granting = grantingOf(roles, this.roles);
    // One more than may be sent, to tell that there are more.
    if (granting.length > 0 && this.#found.size <= MOST_STAFF) this.#found.set(id, granting);
  }

  heard(user: string, roles: Iterable<string> | null): void {
    this.#meanwhile.set(user, roles && grantingOf(roles, this.roles));
  }

  result(): Holders {
    for (const [user, roles] of this.#meanwhile) {
      if (roles && roles.length > 0) this.#found.set(user, roles);
      else this.#found.delete(user);
    }
    return this.#found;
  }
}

/** Who has a granting role. An incomplete list is never returned. */
export class Staff {
  readonly #world: World;
  readonly #clock: Clock;
  readonly #status: Status;
  readonly #needsListing: (guild: string) => void;
  readonly #guilds = new Map<string, GuildStaff>();

  /** `needsListing`: the members of this guild must be listed before its staff is known. */
  constructor(world: World, clock: Clock, status: Status, needsListing: (guild: string) => void) {
    this.#world = world;
    this.#clock = clock;
    this.#status = status;
    this.#needsListing = needsListing;
  }

  /** How many staff are known, across all guilds. */
  get count(): number {
    let count = 0;
    for (const { known } of this.#guilds.values()) count += known?.size ?? 0;
    return count;
  }

  /** The guild's granting roles, as listed by its callback. */
  setRoles(guild: string, named: Iterable<string>): void {
    // The guild's own ID is the @everyone role, which makes nobody staff.
    const roles = new Set([...named].filter((role) => role !== guild));
    const staff = this.#guilds.get(guild);
    if (!staff) {
      if (roles.size > 0) this.#guilds.set(guild, { roles, known: null, survey: null });
      return;
    }
    if (isWithin(roles, staff.roles)) {
      if (roles.size < staff.roles.size && staff.known) staff.known = narrowed(staff.known, roles);
    } else staff.known = null;
    staff.roles = roles;
  }

  /** The staff to send; null if it is not completely known. */
  async of(guild: string): Promise<Record<string, string[]> | null> {
    const staff = this.#guilds.get(guild);
    if (!staff || staff.roles.size === 0) return {};
    const cached = this.#world.cachedMembers(guild);
    if (cached) await this.#look(staff, cached);
    if (!staff.known) {
      this.#needsListing(guild);
      return null;
    }
    if (staff.known.size > MOST_STAFF) {
      this.#status.warnOnce(`staff ${guild}`, `guild ${guild} has more than ${MOST_STAFF} staff: the rest is left out`);
    }
    return Object.fromEntries([...staff.known].slice(0, MOST_STAFF));
  }

  /** A member has these roles. Returns whether that is new: it differs from what is known, or nothing is known. */
  member(guild: string, user: string, roles: string[]): boolean {
    const staff = this.#guilds.get(guild);
    if (!staff || staff.roles.size === 0) return false;
    staff.survey?.heard(user, roles);
    return staff.known === null || isChange(staff.known, user, grantingOf(roles, staff.roles));
  }

  /** Which of these roles grant something, in ascending order. */
  granting(guild: string, roles: Iterable<string>): string[] {
    return grantingOf(roles, this.#guilds.get(guild)?.roles ?? new Set());
  }

  /** Whether the guild has granting roles but it isn't known who has them. */
  isUnknown(guild: string): boolean {
    const staff = this.#guilds.get(guild);
    return staff !== undefined && staff.roles.size > 0 && staff.known === null;
  }

  memberGone(guild: string, user: string): void {
    const staff = this.#guilds.get(guild);
    staff?.survey?.heard(user, null);
    staff?.known?.delete(user);
  }

  /** A role was deleted. Returns whether it granted something. */
  roleGone(guild: string, role: string): boolean {
    const staff = this.#guilds.get(guild);
    if (!staff?.roles.has(role)) return false;
    if (staff.survey) staff.survey.isOutdated = true;
    const left = new Set(staff.roles);
    left.delete(role);
    if (staff.known) staff.known = narrowed(staff.known, left);
    return true;
  }

  /** Events of these guilds were missed: what was known may be wrong. */
  doubt(isDoubtful: (guild: string) => boolean): void {
    for (const [guild, staff] of this.#guilds) {
      if (!isDoubtful(guild)) continue;
      staff.known = null;
      staff.survey = null;
    }
  }

  forget(guild: string): void {
    this.#guilds.delete(guild);
  }

  /** A listing begins; null if it is no longer needed. */
  beginSurvey(guild: string): Survey | null {
    const staff = this.#guilds.get(guild);
    if (!staff || staff.known || staff.roles.size === 0) return null;
    return (staff.survey = new Survey(staff.roles));
  }

  /** A listing is complete. Returns "again" if it must be repeated, "dropped" if it's no longer needed. */
  endSurvey(guild: string, survey: Survey): "complete" | "again" | "dropped" {
    const staff = this.#guilds.get(guild);
    if (staff?.survey !== survey) return "dropped";
    staff.survey = null;
    if (survey.isOutdated || !isWithin(staff.roles, survey.roles)) return "again";
    staff.known = narrowed(survey.result(), staff.roles);
    return "complete";
  }

  /** Takes the staff from the cache, which has every member. */
  async #look(staff: GuildStaff, members: Iterable<Member>): Promise<void> {
    const survey = new Survey(staff.roles);
    staff.survey = survey;
    let seen = 0;
    for (const member of members) {
      survey.add(member);
      if (++seen % SLICE === 0) await this.#clock.breathe();
    }
    if (staff.survey !== survey) return;
    staff.survey = null;
    if (isWithin(staff.roles, survey.roles)) staff.known = narrowed(survey.result(), staff.roles);
  }
}

/** Records this, and returns whether it differs from what was known. */
function isChange(known: Holders, user: string, granting: string[]): boolean {
  const before = known.get(user);
  if (granting.join() === (before ?? []).join()) return false;
  if (granting.length === 0) return known.delete(user);
  // Members beyond the limit are left out.
  if (!before && known.size >= MOST_STAFF) return false;
  known.set(user, granting);
  return true;
}

/** Lists of roles are in ascending order. */
function grantingOf(roles: Iterable<string>, granting: ReadonlySet<string>): string[] {
  return [...new Set(roles)].filter((role) => granting.has(role)).sort(compareIds);
}

function isWithin(roles: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  for (const role of roles) if (!others.has(role)) return false;
  return true;
}

function narrowed(holders: Holders, roles: ReadonlySet<string>): Holders {
  const left: Holders = new Map();
  for (const [user, held] of holders) {
    const granting = held.filter((role) => roles.has(role));
    if (granting.length > 0) left.set(user, granting);
  }
  return left;
}

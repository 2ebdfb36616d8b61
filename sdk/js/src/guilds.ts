import type { Callbacks, Facts } from "./callbacks.js";
import type { GuildMark, Marks } from "./marks.js";
import type { Staff } from "./staff.js";
import type { Grants } from "./types.js";
import type { Roster } from "./roster.js";
import type { GuildFields } from "./world.js";

/** The service's limit. */
const NAME_CHARACTERS = 100;

/** The lines of guilds: what the library knows, what the callbacks say, and the staff. */
export class Guilds {
  readonly #roster: Roster;
  readonly #callbacks: Callbacks;
  readonly #staff: Staff;
  readonly #marks: Marks;

  constructor(roster: Roster, callbacks: Callbacks, staff: Staff, marks: Marks) {
    this.#roster = roster;
    this.#callbacks = callbacks;
    this.#staff = staff;
    this.#marks = marks;
  }

  /** The guild's line in a snapshot; null if the bot has left it. */
  async snapshotLine(id: string): Promise<object | null> {
    const facts = this.#there(id) && (await this.#ask(id));
    const line = facts && (await this.#whole(id, facts));
    if (line) return line;
    return this.#roster.guild(id) === null ? null : { id, unavailable: true };
  }

  /** The event lines of a mark, at most two. */
  async eventLines(mark: GuildMark): Promise<object[]> {
    const lines: object[] = mark.gone ? [{ type: "guild_gone", id: mark.guild }] : [];
    const line = await this.#eventLine(mark);
    if (line) lines.push({ type: "guild", ...line });
    return lines;
  }

  /** The event line with a guild's own fields, or a complete one if its callbacks haven't answered yet. */
  async fieldsLine(id: string): Promise<object | null> {
    const guild = this.#there(id);
    if (!guild) return null;
    const facts = this.#callbacks.last(id);
    if (!facts) {
      const answered = await this.#ask(id);
      return answered && this.#whole(id, answered);
    }
    this.#marks.lineMade(id);
    return { ...describe(guild), setup: facts.setup, linked: facts.linked };
  }

  /** Which of these roles grant something. */
  granting(guild: string, roles: Iterable<string>): string[] {
    return this.#staff.granting(guild, roles);
  }

  async #eventLine({ guild, whole, fields, ask }: GuildMark): Promise<object | null> {
    if (!this.#there(guild)) return null;
    if (whole || ask) {
      const before = this.#callbacks.last(guild);
      const facts = await this.#ask(guild);
      if (!facts) return null;
      if (whole || !before || !isSame(before, facts)) return this.#whole(guild, facts);
    }
    return fields ? this.fieldsLine(guild) : null;
  }

  async #ask(id: string): Promise<Facts | null> {
    const facts = await this.#callbacks.ask(id);
    if (facts) this.#staff.setRoles(id, Object.keys(facts.grants));
    return facts;
  }

  async #whole(id: string, { setup, linked, grants }: Facts): Promise<object | null> {
    const staff = await this.#staff.of(id);
    // Read last, after everything that takes time.
    const guild = this.#there(id);
    if (!guild) return null;
    this.#marks.lineMade(id);
    // An incomplete staff list is left out, so the service keeps what it has.
    return { ...describe(guild), setup, linked, grants, ...(staff ? { staff } : {}) };
  }

  #there(id: string): GuildFields | null {
    const guild = this.#roster.guild(id);
    return guild === "unavailable" ? null : guild;
  }
}

function describe({ id, name, icon, owner, members }: GuildFields): GuildFields {
  return { id, name: text(name), icon, owner, members: Math.max(0, members || 0) };
}

/** A name that every JSON parser accepts: no half of a surrogate pair, and within the limit. */
function text(name: string): string {
  return Array.from(name.replace(/\p{Surrogate}/gu, "\ufffd")).slice(0, NAME_CHARACTERS).join("");
}

function isSame(a: Facts, b: Facts): boolean {
  return a.setup === b.setup && a.linked === b.linked && canonical(a.grants) === canonical(b.grants);
}

function canonical(grants: Grants): string {
  const roles = Object.entries(grants).map(([role, keys]) => `${role}: ${[...keys].sort().join()}`);
  return roles.sort().join("; ");
}

import type { Clock } from "./clock.js";
import type { Limits } from "./limits.js";

/** What to send about a guild. The contents are read when it is sent. */
export interface GuildMark {
  guild: string;
  /** The bot has left it. */
  gone: boolean;
  /** Everything: call the callbacks, and send grants and staff. */
  whole: boolean;
  /** Its own fields only. */
  fields: boolean;
  /** Call the callbacks; if they say something new, send everything. */
  ask: boolean;
}

/** A member with these roles, or who has left (null). All roles, because what they grant may change until it is sent. */
export interface MemberMark {
  guild: string;
  user: string;
  roles: string[] | null;
  /** Whether a snapshot without staff leaves this out: the member left, and perhaps came back. */
  isKept: boolean;
}

export type Mark = GuildMark | MemberMark;

export type GuildChange = "gone" | "whole" | "fields" | "ask";

/** Changes waiting to be sent, in order. Marks of the same thing are merged and move to the end. */
export class Marks {
  readonly #clock: Clock;
  readonly #limits: Limits;
  #marks = new Map<string, Mark>();
  /** Members who left a guild whose shard can't be sent now: they wait for its snapshot. */
  readonly #held = new Map<string, MemberMark>();
  /** Guilds where only the member count changed, and when they may be sent. */
  readonly #counts = new Map<string, number>();
  /** When each guild's last line, with its member count, was built; old ones are forgotten. */
  readonly #lines = new Map<string, number>();

  constructor(clock: Clock, limits: Limits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** How many can be sent. Doesn't include member counts: there are at most as many as guilds. */
  get size(): number {
    return this.#marks.size;
  }

  /** Includes those that wait for a snapshot. */
  get waiting(): number {
    return this.#marks.size + this.#held.size;
  }

  /** False if there is no room for it. */
  guild(guild: string, change: GuildChange): boolean {
    if (change === "gone") {
      this.#dropGuild(guild);
      return this.#set(guild, { guild, gone: true, whole: false, fields: false, ask: false });
    }
    const old = this.#marks.get(guild) as GuildMark | undefined;
    const mark = { ...(old ?? { guild, gone: false, whole: false, fields: false, ask: false }) };
    mark[change] = true;
    return this.#set(guild, mark);
  }

  /** False if there is no room for it. */
  member(guild: string, user: string, roles: string[] | null): boolean {
    return this.#set(`${guild}/${user}`, this.#replaceMember(guild, user, roles));
  }

  /** Like `member`, but waits for the snapshot of the guild's shard, which includes everything except members who left. */
  holdMember(guild: string, user: string, roles: string[] | null): boolean {
    const mark = this.#replaceMember(guild, user, roles);
    if (!mark.isKept) return true;
    if (this.waiting >= this.#limits.changes) return false;
    this.#held.set(`${guild}/${user}`, mark);
    return true;
  }

  /** The member count has changed. Returns in how many milliseconds it may be sent. */
  memberCount(guild: string): number {
    const now = this.#clock.now();
    const last = this.#lines.get(guild);
    const due = this.#counts.get(guild) ?? (last === undefined ? now : Math.max(now, last + this.#limits.memberCountInterval));
    this.#counts.set(guild, due);
    return due - now;
  }

  /** Removes and returns the first marks. */
  take(most: number): Mark[] {
    const taken: Mark[] = [];
    for (const [key, mark] of this.#marks) {
      if (taken.length >= most) break;
      this.#marks.delete(key);
      taken.push(mark);
    }
    return taken;
  }

  /** Puts marks that didn't fit in the request back at the front. */
  putBack(marks: Mark[]): void {
    const merged = new Map<string, Mark>();
    for (const mark of marks) {
      const key = "user" in mark ? `${mark.guild}/${mark.user}` : mark.guild;
      const newer = this.#marks.get(key);
      if (!newer) merged.set(key, mark);
      else if ("user" in mark && "user" in newer) newer.isKept ||= mark.isKept;
      else if (!("user" in mark) && !("user" in newer) && !newer.gone) {
        const { gone, whole, fields, ask } = mark;
        Object.assign(newer, { gone, whole: newer.whole || whole, fields: newer.fields || fields, ask: newer.ask || ask });
      }
    }
    for (const [key, mark] of this.#marks) merged.set(key, mark);
    this.#marks = merged;
  }

  /** Removes and returns guilds whose member count is due. */
  takeCounts(most: number): string[] {
    const now = this.#clock.now();
    const due: string[] = [];
    for (const [guild, at] of this.#counts) {
      if (due.length >= most) break;
      if (at > now) continue;
      this.#counts.delete(guild);
      due.push(guild);
    }
    return due;
  }

  /** A line about the guild, with its member count, was built. */
  lineMade(guild: string): void {
    const now = this.#clock.now();
    this.#counts.delete(guild);
    this.#lines.delete(guild);
    this.#lines.set(guild, now);
    for (const [old, at] of this.#lines) {
      if (now - at < this.#limits.memberCountInterval) break;
      this.#lines.delete(old);
    }
  }

  /** In how many milliseconds the next member count is due; null if none is waiting. */
  nextCount(): number | null {
    let next = Infinity;
    for (const at of this.#counts.values()) next = Math.min(next, at);
    return next === Infinity ? null : Math.max(0, next - this.#clock.now());
  }

  /** Drops what a snapshot includes: everything except members who left a guild, who wait for it. */
  drop(isDropped: (guild: string) => boolean): void {
    for (const [key, mark] of this.#marks) {
      if (!isDropped(mark.guild)) continue;
      this.#marks.delete(key);
      if ("user" in mark && mark.isKept) this.#held.set(key, mark);
    }
    for (const guild of this.#counts.keys()) if (isDropped(guild)) this.#counts.delete(guild);
  }

  /** A snapshot of these guilds begins. Returns the members who left: they are sent after it. */
  begin(isIncluded: (guild: string) => boolean): MemberMark[] {
    this.drop(isIncluded);
    const left: MemberMark[] = [];
    for (const [key, mark] of this.#held) {
      if (!isIncluded(mark.guild)) continue;
      this.#held.delete(key);
      this.#marks.set(key, mark);
      left.push(mark);
    }
    return left;
  }

  /** Drops a mark, unless a newer one has replaced it. */
  dropMember(mark: MemberMark): void {
    const key = `${mark.guild}/${mark.user}`;
    if (this.#marks.get(key) === mark) this.#marks.delete(key);
  }

  clear(): void {
    this.#marks.clear();
    this.#held.clear();
    this.#counts.clear();
  }

  hasMember(guild: string, user: string): boolean {
    const key = `${guild}/${user}`;
    return this.#marks.has(key) || this.#held.has(key);
  }

  #set(key: string, mark: Mark): boolean {
    if (!this.#marks.delete(key) && this.waiting >= this.#limits.changes) return false;
    this.#marks.set(key, mark);
    return true;
  }

  /** Removes the member's waiting mark. The new one is kept if that one was: the member left, and came back. */
  #replaceMember(guild: string, user: string, roles: string[] | null): MemberMark {
    const key = `${guild}/${user}`;
    const old = (this.#held.get(key) ?? this.#marks.get(key)) as MemberMark | undefined;
    this.#held.delete(key);
    this.#marks.delete(key);
    return { guild, user, roles, isKept: roles === null || (old?.isKept ?? false) };
  }

  #dropGuild(guild: string): void {
    this.#lines.delete(guild);
    for (const marks of [this.#marks, this.#held]) for (const [key, mark] of marks) if (mark.guild === guild) marks.delete(key);
    this.#counts.delete(guild);
  }
}

import type { Clock } from "./clock.js";
import type { Feedback, FeedbackLine } from "./feedback.js";
import type { Guilds } from "./guilds.js";
import type { Limits } from "./limits.js";
import type { Lists } from "./lists.js";
import type { GuildMark, Mark, Marks, MemberMark } from "./marks.js";
import type { Status } from "./status.js";

interface Line {
  text: string;
  /** Its name in the log. */
  about: string;
  feedback?: FeedbackLine;
  /** The team's fingerprint. */
  team?: string;
}

/** Numbered lines whose outcome is unknown. They keep their numbers, so that a repeat is recognised. */
export interface Batch {
  first: number;
  lines: Line[];
}

/** Builds batches, and tracks the outcome of their lines. */
export class Batches {
  readonly #marks: Marks;
  readonly #feedback: Feedback;
  readonly #lists: Lists;
  readonly #guilds: Guilds;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #missed: (guild: string) => void;

  /** `missed`: a change of this guild was lost to a bug. */
  constructor(
    marks: Marks, feedback: Feedback, lists: Lists, guilds: Guilds, clock: Clock, limits: Limits, status: Status, missed: (guild: string) => void,
  ) {
    this.#missed = missed;
    this.#marks = marks;
    this.#feedback = feedback;
    this.#lists = lists;
    this.#guilds = guilds;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
  }

  /** What is waiting, as many lines as fit: the team, feedback, changes, member counts. Null if there is nothing to send. */
  async make(first: number): Promise<Batch | null> {
    const filling = new Filling(this.#limits, this.#status);
    if (this.#lists.isStale.team) {
      const team = await this.#lists.team();
      if (team) filling.add({ text: team.lines[0] as string, about: "the team", team: team.print });
    }
    this.#addFeedback(filling);
    const deadline = this.#clock.now() + this.#limits.flushInterval;
    // What arrives in the meantime goes into the next one.
    let left = this.#marks.size;
    // Slow callbacks must not hold up the others, so after a while whatever is there is sent.
    while (!filling.isFull) {
      const most = Math.min(this.#limits.callbacksAtOnce, filling.room);
      const marks = this.#marks.take(Math.min(most, left));
      left -= marks.length;
      const counts = marks.length === 0 ? this.#marks.takeCounts(most) : [];
      if (marks.length + counts.length === 0) break;
      const isRoomLeft = marks.length > 0 ? await this.#addChanges(filling, marks) : await this.#addCounts(filling, counts);
      if (!isRoomLeft || this.#clock.now() >= deadline) break;
    }
    return filling.lines.length > 0 ? { first, lines: filling.lines } : null;
  }

  /** All lines have been applied. */
  acknowledged(batch: Batch): void {
    this.#status.counters.linesSent += batch.lines.length;
    this.#feedback.delivered(feedbackOf(batch.lines));
    for (const { team } of batch.lines) if (team) this.#lists.acknowledged("team", team);
  }

  /** Nothing was applied; the changes will be in the snapshots that follow. */
  returned(batch: Batch): void {
    this.#feedback.putBack(feedbackOf(batch.lines));
  }

  /** The service refused a line. */
  drop(batch: Batch, index: number, reason: string): void {
    const [line] = batch.lines.splice(index, 1);
    if (!line) return;
    this.#status.counters.linesRefused += 1;
    this.#status.warn(`the service refuses ${line.about}, which is dropped: ${reason}`);
    if (line.feedback) this.#feedback.refused(line.feedback, reason);
    if (line.team) this.#lists.refuseTeam(line.team);
  }

  /** Removes the second half. Returns whether it contained changes, which must then be sent another way. */
  halve(batch: Batch): boolean {
    const rest = batch.lines.splice(Math.floor(batch.lines.length / 2));
    this.#feedback.putBack(feedbackOf(rest));
    return rest.some((line) => !line.feedback);
  }

  #addFeedback(filling: Filling): void {
    const lines = this.#feedback.take(Math.min(this.#limits.feedbackLines, filling.room));
    for (const [index, feedback] of lines.entries()) {
      if (filling.add({ text: feedback.text, about: feedback.about, feedback })) continue;
      this.#feedback.putBack(lines.slice(index));
      return;
    }
  }

  /** False if some no longer fit. */
  async #addChanges(filling: Filling, marks: Mark[]): Promise<boolean> {
    const made = await Promise.all(marks.map((mark) => ("user" in mark ? mark : this.#guildLines(mark))));
    for (const [index, one] of made.entries()) {
      // A member's line is made only now: the guild's own line before it may have brought other grants.
      if (filling.addAll(Array.isArray(one) ? one : [this.#memberLine(one)])) continue;
      this.#marks.putBack(marks.slice(index));
      return false;
    }
    await this.#clock.breathe();
    return true;
  }

  async #addCounts(filling: Filling, guilds: string[]): Promise<boolean> {
    const made = await Promise.all(guilds.map((guild) => this.#guilds.fieldsLine(guild)));
    for (const [index, line] of made.entries()) {
      if (!line || filling.addAll([lineOf({ type: "guild", ...line }, `guild ${guilds[index]}`)])) continue;
      for (const guild of guilds.slice(index)) this.#marks.guild(guild, "fields");
      return false;
    }
    await this.#clock.breathe();
    return true;
  }

  async #guildLines(mark: GuildMark): Promise<Line[]> {
    try {
      return (await this.#guilds.eventLines(mark)).map((line) => lineOf(line, `guild ${mark.guild}`));
    } catch (error) {
      this.#status.fault(error);
      this.#missed(mark.guild);
      return [];
    }
  }

  #memberLine({ guild, user, roles }: MemberMark): Line {
    const line = roles === null ? { type: "member_gone", guild, user } : { type: "member", guild, user, roles: this.#guilds.granting(guild, roles) };
    return lineOf(line, `${line.type} ${user} of guild ${guild}`);
  }
}

/** A batch under construction. */
class Filling {
  readonly lines: Line[] = [];
  readonly #limits: Limits;
  readonly #status: Status;
  #bytes = 0;

  constructor(limits: Limits, status: Status) {
    this.#limits = limits;
    this.#status = status;
  }

  get room(): number {
    return this.#limits.batchLines - this.lines.length;
  }

  get isFull(): boolean {
    return this.room <= 0 || this.#bytes >= this.#limits.batchBytes;
  }

  /** False if it no longer fits. */
  add(line: Line): boolean {
    return this.addAll([line]);
  }

  /** All or none, so that what belongs together stays together. */
  addAll(lines: Line[]): boolean {
    const fitting = lines.filter((line) => this.#mayBeSent(line));
    const bytes = fitting.reduce((sum, { text }) => sum + Buffer.byteLength(text) + 1, 0);
    const isTooMuch = fitting.length > this.room || this.#bytes + bytes > this.#limits.batchBytes;
    // A single line is always sent, or it would wait forever.
    if (fitting.length > 0 && isTooMuch && this.lines.length > 0) return false;
    this.#bytes += bytes;
    this.lines.push(...fitting);
    return true;
  }

  #mayBeSent({ text, about }: Line): boolean {
    const { lineBytes } = this.#limits;
    if (text.length < lineBytes / 4 || Buffer.byteLength(text) < lineBytes) return true;
    const isGuild = about.startsWith("guild ");
    const message = `${isGuild ? about : "a change"} is too long and is not sent: ${isGuild ? "" : `${about}, `}more than ${lineBytes} bytes`;
    this.#status.warnOnce(`${about} too long`, message);
    return false;
  }
}

function lineOf(line: object, about: string): Line {
  return { text: JSON.stringify(line), about };
}

function feedbackOf(lines: Line[]): FeedbackLine[] {
  return lines.flatMap(({ feedback }) => feedback ?? []);
}

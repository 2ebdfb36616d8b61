import { createHash } from "node:crypto";
import { Readable, pipeline } from "node:stream";
import { createGzip } from "node:zlib";
import type { Clock } from "./clock.js";
import { SafeLogger, reasonOf } from "./logger.js";
import type { FeedRequest, FeedResponse, Transport } from "./transport.js";
import type { FeedbackEntry } from "./types.js";

/** What the feed asks the bot for, at the moment of sending: so an old state is never sent after a new one. */
export interface Source {
  /** Into how many shards the guilds are split. */
  shardCount(): number;
  /** The heartbeat's body; null while no shard is known. */
  heartbeat(): object | null;
  /** The guilds of a shard, those with an outage too. */
  guildIds(shard: number): string[];
  /** A line of a snapshot; null when the bot has left since. */
  snapshotLine(guild: string): Promise<object | null>;
  /** A line of the events; null when there is nothing to say any more. */
  eventLine(change: Change): Promise<object | null>;
  /** All subscriptions; null when the bot keeps them elsewhere. */
  subscriptions(): Promise<object[] | null>;
  /** The whole team; null when the bot keeps it elsewhere. */
  team(): Promise<object[] | null>;
}

/** Something that changed; what it is now is read when it is sent. */
export type Change =
  | { type: "guild"; guild: string }
  /** Its own facts only: grants and staff stay as the service holds them. */
  | { type: "guild_facts"; guild: string }
  | { type: "guild_gone"; guild: string }
  | { type: "member"; guild: string; user: string; roles: string[] }
  | { type: "member_gone"; guild: string; user: string };

/** The sizes and times of a feed. All times are milliseconds. */
export interface Bounds {
  /** Changes that wait; one more and all shards are sent anew. */
  changes: number;
  /** Feedback entries that wait; more are refused. */
  feedback: number;
  /** Lines of one events request. */
  batchLines: number;
  /** Bytes of one events request, before compression. */
  batchBytes: number;
  /** How long changes are gathered before they are sent. */
  gather: number;
  heartbeat: number;
  /** Between two sendings of a guild whose member count alone changes. */
  memberCount: number;
  /** Between two looks at subscriptions and team. */
  refresh: number;
  /** A request in which nothing moves for so long has failed. */
  stall: number;
  firstRetry: number;
  lastRetry: number;
  /** What `close()` may take. */
  close: number;
}

export const BOUNDS: Bounds = {
  changes: 10_000,
  feedback: 1_000,
  batchLines: 1_000,
  batchBytes: 1024 * 1024,
  gather: 250,
  heartbeat: 15_000,
  memberCount: 60_000,
  refresh: 300_000,
  stall: 30_000,
  firstRetry: 1_000,
  lastRetry: 60_000,
  close: 5_000,
};

/** The service's bound on a line. */
const LINE_BYTES = 1024 * 1024;
/** Guilds that are asked for at once; between two slices the event loop is free. */
const SLICE = 16;
/** A Retry-After beyond this is a mistake of somebody's. */
const LONGEST_RETRY_AFTER = 3_600_000;

/** Below this, compression saves nothing. */
const WORTH_COMPRESSING = 4 * 1024;

interface Line {
  text: string;
  /** Names it in the log. */
  about: string;
  feedback?: FeedbackEntry;
}

interface Batch {
  first: number;
  lines: Line[];
}

type Channel = "feed" | "heartbeat";
type Answer = { wait: number } | { status: number; data: Record<string, unknown> };

/**
 * Everything that goes to the service, in order: one request at a time, beside it the heartbeat.
 *
 * A change is numbered when it is sent. A batch keeps its numbers and lines until the service has answered for it, so
 * that a repeat is recognised. A shard that is stale gets a snapshot; until that begins, its changes need not be kept.
 */
export class Feed {
  readonly #source: Source;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #log: SafeLogger;
  readonly #instance: string;
  readonly #bounds: Bounds;

  #next = 1;
  #batch: Batch | null = null;
  readonly #changes = new Map<string, Change>();
  /** Guilds of which only the member count changed: since the last sweep, due, and when they were last sent. */
  readonly #counts = new Set<string>();
  readonly #countsDue = new Set<string>();
  readonly #countsSent = new Map<string, number>();
  readonly #later = new Set<string>();
  readonly #feedback: FeedbackEntry[] = [];

  readonly #ready = new Set<number>();
  readonly #stale = new Set<number>();
  /** Guilds whose line was refused: first sent as unavailable, then not at all. */
  readonly #refused = new Map<string, "unavailable" | "left out">();
  readonly #refusedSubscriptions = new Set<string>();
  /** The service was away: it may have lost what it had acknowledged. */
  #doubtful = false;
  #subscriptionsStale = false;
  #teamStale = false;
  #subscriptionsSent = "";
  #teamSent = "";
  /** Whether the service knows when this instance started: that decides whose shard it is. */
  #introduced = false;

  readonly #failures: Record<Channel, number> = { feed: 0, heartbeat: 0 };
  readonly #down = new Set<Channel>();
  #downSince = 0;
  /** Resyncs in a row, and snapshots in a row that were refused for no reason that can be mended. */
  #resyncs = 0;
  #stuck = 0;
  #overflowed = false;

  #started = false;
  #closing = false;
  #working: Promise<void> | null = null;
  #cancelWake: (() => void) | null = null;
  #endPause: (() => void) | null = null;
  readonly #timers = new Map<string, () => void>();
  readonly #requests = new Set<AbortController>();

  constructor(
    source: Source,
    transport: Transport,
    clock: Clock,
    log: SafeLogger,
    instance: string,
    bounds: Partial<Bounds> = {},
  ) {
    this.#source = source;
    this.#transport = transport;
    this.#clock = clock;
    this.#log = log;
    this.#instance = instance;
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#every("heartbeat", this.#bounds.heartbeat, () => this.#beat());
    this.#every("counts", this.#bounds.memberCount, async () => this.#sweepCounts());
    this.#every("refresh", this.#bounds.refresh, async () => this.refresh());
  }

  /** How much is kept, for tests. */
  get waiting(): { changes: number; counts: number; feedback: number; batch: number } {
    return {
      changes: this.#changes.size,
      counts: this.#counts.size + this.#countsDue.size,
      feedback: this.#feedback.length,
      batch: this.#batch?.lines.length ?? 0,
    };
  }

  /** A shard has all its guilds: its whole truth is due. */
  shardReady(shard: number): void {
    this.#ready.add(shard);
    this.#stale.add(shard);
    if (shard === 0) this.#everythingElseStale();
    this.#wake(0);
  }

  /** A shard starts over; until it is ready its changes are part of its snapshot. */
  shardLost(shard: number): void {
    this.#ready.delete(shard);
    this.#stale.delete(shard);
    this.#forgetChangesOf(shard);
  }

  isReady(shard: number): boolean {
    return this.#ready.has(shard);
  }

  change(change: Change): void {
    if (this.#closing) return;
    const shard = shardOf(change.guild, this.#source.shardCount());
    if (!this.#ready.has(shard)) return;
    if (change.type === "guild") this.#refused.delete(change.guild);
    if (change.type === "guild_gone") {
      this.#refused.delete(change.guild);
      this.#later.delete(change.guild);
      this.#counts.delete(change.guild);
      this.#countsDue.delete(change.guild);
    }
    if (this.#stale.has(shard)) return;
    const key = "user" in change ? `${change.guild}/${change.user}` : change.guild;
    const before = this.#changes.get(key);
    // What is told of the guild alone must not swallow that grants and staff changed too.
    if (before && change.type === "guild_facts") return;
    if (!before && this.#changes.size >= this.#bounds.changes) {
      if (!this.#overflowed) {
        this.#overflowed = true;
        this.#log.log("warn", `${this.#bounds.changes} changes are waiting: all guilds will be sent anew instead`);
      }
      this.#resync();
      return;
    }
    // Last in line: its place must be behind what happened before it.
    this.#changes.delete(key);
    this.#changes.set(key, change);
    this.#wake(this.#bounds.gather);
  }

  /** What the guild is without its staff is to be sent soon; not counted as waiting, since guilds are only so many. */
  facts(guild: string): void {
    if (!this.#closing) this.#countsDue.add(guild);
  }

  /** The guild could not be described: it is tried again in a while. */
  later(guild: string): void {
    if (!this.#closing) this.#later.add(guild);
  }

  memberCount(guild: string): void {
    if (this.#closing) return;
    const shard = shardOf(guild, this.#source.shardCount());
    if (this.#ready.has(shard) && !this.#stale.has(shard)) this.#counts.add(guild);
  }

  /** Whether there was room for it. */
  feedback(entry: FeedbackEntry): boolean {
    if (this.#closing) return false;
    if (this.#feedback.length >= this.#bounds.feedback) {
      this.#log.once("warn", `${this.#bounds.feedback} feedback entries are waiting: more are refused until they are sent`);
      return false;
    }
    this.#feedback.push(entry);
    this.#wake(this.#bounds.gather);
    return true;
  }

  /** Looks whether subscriptions or the team have changed, and whether the service still has everything. */
  refresh(): void {
    if (this.#closing) return;
    if (this.#ready.has(0)) {
      this.#subscriptionsStale = true;
      this.#teamStale = true;
    }
    this.#doubtful = true;
    this.#wake(0);
  }

  /** Sends what waits, once and within the bound; then nothing is sent any more. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    this.#endPause?.();
    const overdue = new Promise<void>((resolve) => {
      this.#timers.set("close", this.#clock.after(this.#bounds.close, resolve));
    });
    await Promise.race([overdue, this.#flush()]);
    this.#timers.get("close")?.();
    this.#cancelWake?.();
    if (this.#pending()) this.#log.log("warn", "closed before everything was sent");
    for (const request of this.#requests) request.abort(new Error("closed"));
  }

  async #flush(): Promise<void> {
    await this.#working;
    // The round before may have ended in a pause that was cut short.
    if (this.#pending()) await this.#run();
  }

  // --- when

  #every(name: string, ms: number, call: () => Promise<void>): void {
    const round = (): void => {
      this.#timers.set(name, this.#clock.after(ms, round));
      call().catch((error: unknown) => this.#bug(error));
    };
    this.#timers.set(name, this.#clock.after(ms, round));
  }

  #wake(ms: number): void {
    if (this.#working || this.#closing) return;
    if (this.#cancelWake && ms > 0) return;
    this.#cancelWake?.();
    this.#cancelWake = this.#clock.after(ms, () => {
      this.#cancelWake = null;
      void this.#run();
    });
  }

  #run(): Promise<void> {
    this.#working ??= this.#rounds().finally(() => {
      this.#working = null;
      if (this.#pending()) this.#wake(this.#bounds.gather);
    });
    return this.#working;
  }

  async #rounds(): Promise<void> {
    for (;;) {
      let wait: number;
      try {
        const step = this.#step();
        if (!step) return;
        wait = await step;
      } catch (error) {
        this.#bug(error);
        wait = this.#backOff("feed");
      }
      if (wait > 0) {
        if (this.#closing) return;
        await this.#pause(wait);
        if (this.#closing) return;
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }

  #pending(): boolean {
    return (
      this.#batch !== null ||
      this.#stale.size > 0 ||
      this.#subscriptionsStale ||
      this.#teamStale ||
      this.#doubtful ||
      this.#changes.size > 0 ||
      this.#countsDue.size > 0 ||
      this.#feedback.length > 0
    );
  }

  /** The next thing to do; its outcome is how long to wait before another. */
  #step(): Promise<number> | null {
    if (!this.#pending()) return null;
    // Its numbers are used up: whatever comes next must know whether they arrived.
    if (this.#batch) return this.#sendBatch(this.#batch);
    if (!this.#introduced && this.#stale.size > 0) return this.#introduce();
    for (const shard of this.#stale) return this.#sendShard(shard);
    if (this.#subscriptionsStale) return this.#sendSubscriptions();
    if (this.#doubtful) return this.#probe();
    return this.#fillBatch();
  }

  // --- what

  #resync(): void {
    this.#changes.clear();
    this.#counts.clear();
    this.#countsDue.clear();
    for (const shard of this.#ready) this.#stale.add(shard);
    if (this.#ready.has(0)) this.#everythingElseStale();
    this.#introduced = false;
    this.#wake(0);
  }

  #everythingElseStale(): void {
    this.#subscriptionsStale = true;
    this.#subscriptionsSent = "";
    this.#teamStale = true;
    this.#teamSent = "";
  }

  #forgetChangesOf(shard: number): void {
    const count = this.#source.shardCount();
    const of = (guild: string): boolean => shardOf(guild, count) === shard;
    for (const [key, change] of this.#changes) {
      // A snapshot does not say who has left a guild.
      if (change.type !== "member_gone" && of(change.guild)) this.#changes.delete(key);
    }
    for (const counts of [this.#counts, this.#countsDue]) {
      for (const guild of counts) if (of(guild)) counts.delete(guild);
    }
  }

  #sweepCounts(): void {
    const now = this.#clock.now();
    for (const [guild, sent] of this.#countsSent) {
      if (now - sent >= this.#bounds.memberCount) this.#countsSent.delete(guild);
    }
    for (const guild of this.#counts) {
      if (this.#countsSent.has(guild)) continue;
      this.#counts.delete(guild);
      this.#countsDue.add(guild);
    }
    if (this.#countsDue.size > 0) this.#wake(0);
    let again = 0;
    for (const guild of this.#later) {
      // A few at a time, so that they alone never fill what may wait.
      if (++again > this.#bounds.changes / 10) break;
      this.#later.delete(guild);
      this.change({ type: "guild", guild });
    }
  }

  async #introduce(): Promise<number> {
    const wait = await this.#sendHeartbeat("feed");
    if (wait === 0) this.#introduced = true;
    return wait;
  }

  async #beat(): Promise<void> {
    if (this.#requests.size > 0 && [...this.#requests].some((request) => heartbeats.has(request))) return;
    const wait = await this.#sendHeartbeat("heartbeat");
    // The next rounds of the timer fall into the pause that the service asked for.
    if (wait > this.#bounds.heartbeat && !this.#closing) {
      this.#timers.get("heartbeat")?.();
      this.#timers.set(
        "heartbeat",
        this.#clock.after(wait, () => {
          this.#every("heartbeat", this.#bounds.heartbeat, () => this.#beat());
          this.#beat().catch((error: unknown) => this.#bug(error));
        }),
      );
    }
  }

  async #sendHeartbeat(channel: Channel): Promise<number> {
    const beat = this.#source.heartbeat();
    if (!beat) return 0;
    const answer = await this.#call(channel, "heartbeat", {
      method: "PUT",
      path: "/bot/heartbeat",
      headers: { "content-type": "application/json" },
      body: Buffer.from(JSON.stringify(beat)),
    });
    if ("wait" in answer) return answer.wait;
    if (answer.status !== 200) {
      this.#log.once("warn", `the service refuses the heartbeat: ${String(answer.data["reason"] ?? answer.status)}`);
    }
    return 0;
  }

  async #sendShard(shard: number): Promise<number> {
    this.#stale.delete(shard);
    this.#forgetChangesOf(shard);
    const sequence = this.#snapshotNumber();
    const written: string[] = [];
    const answer = await this.#call("feed", `snapshot of shard ${shard}`, {
      method: "PUT",
      path: `/bot/shards/${this.#source.shardCount()}/${shard}/guilds`,
      headers: this.#gzip(sequence),
      body: this.#zipped(this.#guildLines(this.#source.guildIds(shard), written)),
    });
    if ("status" in answer && answer.status === 200) {
      this.#next = Math.max(this.#next, sequence);
      this.#noteIgnored(answer.data);
      this.#overflowed = false;
      this.#stuck = 0;
      return 0;
    }
    // Unless the shard has started over meanwhile.
    if (this.#ready.has(shard)) this.#stale.add(shard);
    if ("wait" in answer) return answer.wait;
    if (answer.status === 409) return this.#overtaken(answer.data);
    const guild = answer.status === 422 ? written[Number(answer.data["line"]) - 1] : undefined;
    if (guild === undefined) return this.#unexpected(answer);
    const again = this.#refused.has(guild);
    this.#refused.set(guild, again ? "left out" : "unavailable");
    this.#log.log("warn", `the service refuses guild ${guild}, which ${again ? "is left out" : "stays as it was"}: ${String(answer.data["reason"])}`);
    return 0;
  }

  /** Never 1: a service that has lost everything expects 1, and must find a gap in whatever comes after a snapshot. */
  #snapshotNumber(): number {
    this.#next = Math.max(this.#next, 2);
    return this.#next;
  }

  async *#guildLines(ids: string[], written: string[]): AsyncGenerator<string> {
    for (let from = 0; from < ids.length; from += SLICE) {
      const slice = ids.slice(from, from + SLICE);
      const lines = await Promise.all(slice.map((id) => this.#guildLine(id)));
      let text = "";
      for (const [index, line] of lines.entries()) {
        if (line === null) continue;
        written.push(slice[index] ?? "");
        text += line + "\n";
      }
      if (text) yield text;
      await this.#clock.breathe();
    }
    yield `{"end":${written.length}}\n`;
  }

  async #guildLine(id: string): Promise<string | null> {
    const refused = this.#refused.get(id);
    if (refused === "left out") return null;
    const unavailable = JSON.stringify({ id, unavailable: true });
    if (refused) return unavailable;
    const line = await this.#source.snapshotLine(id);
    if (line === null) return null;
    const text = JSON.stringify(line);
    if (text.length < LINE_BYTES / 4 || Buffer.byteLength(text) <= LINE_BYTES) return text;
    this.#log.log("warn", `guild ${id} is over the bound of a line and stays as it was`);
    return unavailable;
  }

  async #sendSubscriptions(): Promise<number> {
    this.#subscriptionsStale = false;
    let lines: string[];
    try {
      const all = await this.#source.subscriptions();
      if (all === null) return 0;
      lines = all.map((one) => JSON.stringify(one)).filter((line) => !this.#refusedSubscriptions.has(line));
    } catch (error) {
      this.#log.log("warn", `subscriptions() failed and is asked again later: ${reasonOf(error)}`);
      return 0;
    }
    const print = fingerprint(lines);
    if (print === this.#subscriptionsSent) return 0;
    const sequence = this.#snapshotNumber();
    const answer = await this.#call("feed", "subscriptions", {
      method: "PUT",
      path: "/bot/subscriptions",
      headers: this.#gzip(sequence),
      body: this.#zipped(Readable.from([...lines.map((line) => line + "\n"), `{"end":${lines.length}}\n`])),
    });
    if ("status" in answer && answer.status === 200) {
      this.#subscriptionsSent = print;
      this.#stuck = 0;
      this.#noteIgnored(answer.data);
      return 0;
    }
    this.#subscriptionsStale = true;
    if ("wait" in answer) return answer.wait;
    if (answer.status === 409) return this.#overtaken(answer.data);
    const line = answer.status === 422 ? lines[Number(answer.data["line"]) - 1] : undefined;
    if (line === undefined) return this.#unexpected(answer);
    if (this.#refusedSubscriptions.size >= 1_000) this.#refusedSubscriptions.clear();
    this.#refusedSubscriptions.add(line);
    this.#log.log("warn", `the service refuses a subscription, which is left out: ${String(answer.data["reason"])}`);
    return 0;
  }

  /** No events at the next number: an answer without a gap means that the service still has all that came before. */
  async #probe(): Promise<number> {
    this.#doubtful = false;
    if (this.#ready.size === 0) return 0;
    const answer = await this.#call("feed", "events", {
      method: "POST",
      path: "/bot/events",
      headers: this.#plain(this.#next),
      body: new Uint8Array(),
    });
    if ("wait" in answer) {
      this.#doubtful = true;
      return answer.wait;
    }
    if (answer.status === 409) this.#resync();
    return 0;
  }

  async #fillBatch(): Promise<number> {
    const lines: Line[] = [];
    let bytes = 0;
    const add = (line: Line): void => {
      const size = Buffer.byteLength(line.text) + 1;
      if (size > LINE_BYTES) {
        this.#log.log("warn", `${line.about} is over the bound of a line and is not sent`);
        return;
      }
      bytes += size;
      lines.push(line);
    };
    const room = (): boolean => lines.length < this.#bounds.batchLines && bytes < this.#bounds.batchBytes;

    const team = await this.#teamLine();
    if (team) add(team);
    while (this.#feedback.length > 0 && lines.length < 100 && room()) {
      const entry = this.#feedback.shift() as FeedbackEntry;
      add({ text: JSON.stringify({ type: "feedback", ...entry }), about: `feedback ${entry.id}`, feedback: entry });
    }
    let made = 0;
    const make = async (change: Change): Promise<void> => {
      const line = await this.#source.eventLine(change);
      if (line) add({ text: JSON.stringify(line), about: `${change.type} of guild ${change.guild}` });
      if (++made % SLICE === 0) await this.#clock.breathe();
    };
    for (const [key, change] of this.#changes) {
      if (!room()) break;
      this.#changes.delete(key);
      await make(change);
    }
    for (const guild of this.#countsDue) {
      if (!room()) break;
      this.#countsDue.delete(guild);
      this.#countsSent.set(guild, this.#clock.now());
      await make({ type: "guild_facts", guild });
    }
    // Numbered in any case, even if a resync was called for meanwhile: then they are simply older news.
    if (lines.length > 0) this.#batch = { first: this.#next, lines };
    return 0;
  }

  async #teamLine(): Promise<Line | null> {
    if (!this.#teamStale) return null;
    this.#teamStale = false;
    try {
      const members = await this.#source.team();
      if (members === null) return null;
      const text = JSON.stringify({ type: "team", members });
      const print = fingerprint([text]);
      if (print === this.#teamSent) return null;
      this.#teamSent = print;
      return { text, about: "the team" };
    } catch (error) {
      this.#log.log("warn", `team() failed and is asked again later: ${reasonOf(error)}`);
      return null;
    }
  }

  async #sendBatch(batch: Batch): Promise<number> {
    const text = Buffer.from(batch.lines.map((line) => line.text + "\n").join(""));
    const answer = await this.#call("feed", "events", {
      method: "POST",
      path: "/bot/events",
      ...(text.length < WORTH_COMPRESSING
        ? { headers: this.#plain(batch.first), body: text }
        : { headers: this.#gzip(batch.first), body: this.#zipped(Readable.from([text])) }),
    });
    if ("wait" in answer) return answer.wait;
    const { status, data } = answer;
    if (status === 200) {
      this.#next = batch.first + batch.lines.length;
      this.#batch = null;
      this.#resyncs = 0;
      this.#noteIgnored(data);
      return 0;
    }
    if (status === 409) {
      this.#batch = null;
      this.#feedback.unshift(...batch.lines.flatMap((line) => line.feedback ?? []));
      const theirs = Number(data["next"]) || 1;
      // Without a shard there is no snapshot that could set the number.
      this.#next = this.#ready.size > 0 ? Math.max(batch.first + batch.lines.length, theirs) : theirs;
      this.#log.log("info", "the service asks for everything anew");
      this.#resync();
      this.#resyncs += 1;
      return this.#resyncs > 1 ? this.#delay(this.#resyncs) : 0;
    }
    const line = Number(data["line"]);
    if (status === 422 && batch.lines[line - 1]) {
      this.#drop(batch, line - 1, String(data["reason"]));
      return 0;
    }
    if (batch.lines.length > 1) {
      // Which line it is, or how many are too many, is found by halving. The rest was never sent as far as numbers go.
      const rest = batch.lines.splice(Math.ceil(batch.lines.length / 2));
      this.#feedback.unshift(...rest.flatMap((one) => one.feedback ?? []));
      if (rest.some((one) => !one.feedback)) this.#resync();
      return 0;
    }
    this.#drop(batch, 0, `status ${status}`);
    return 0;
  }

  #drop(batch: Batch, index: number, reason: string): void {
    const [dropped] = batch.lines.splice(index, 1);
    this.#log.log("warn", `the service refuses ${dropped?.about ?? "a line"}, which is dropped: ${reason}`);
    if (batch.lines.length === 0) this.#batch = null;
  }

  #overtaken(data: Record<string, unknown>): number {
    const theirs = Number(data["next"]) || 1;
    const moved = theirs > this.#next;
    this.#next = Math.max(this.#next, theirs);
    this.#introduced = false;
    return moved ? 0 : this.#delay((this.#stuck += 1));
  }

  #unexpected(answer: { status: number; data: Record<string, unknown> }): number {
    const reason = String(answer.data["reason"] ?? answer.data["error"] ?? "");
    this.#log.once("warn", `the service refuses what is sent, and it is tried again: status ${answer.status} ${reason}`.trim());
    return this.#delay((this.#stuck += 1));
  }

  #noteIgnored(data: Record<string, unknown>): void {
    const reasons = data["reasons"];
    if (!Array.isArray(reasons)) return;
    for (const reason of reasons.slice(0, 20)) this.#log.once("info", `the service ignores: ${String(reason)}`);
  }

  // --- how

  #plain(sequence: number): Record<string, string> {
    return {
      "content-type": "application/x-ndjson",
      "feed-instance": this.#instance,
      "feed-sequence": String(sequence),
    };
  }

  #gzip(sequence: number): Record<string, string> {
    return { ...this.#plain(sequence), "content-encoding": "gzip" };
  }

  async *#zipped(lines: AsyncIterable<string | Uint8Array>): AsyncGenerator<Uint8Array> {
    const zip = createGzip();
    pipeline(Readable.from(lines, { highWaterMark: 1 }), zip, () => {
      // An error reaches the loop below.
    });
    // Slow callbacks must not look like a dead connection: what is there goes out.
    let cancel = (): void => {};
    const flush = (): void => {
      zip.flush();
      cancel = this.#clock.after(this.#bounds.stall / 6, flush);
    };
    cancel = this.#clock.after(this.#bounds.stall / 6, flush);
    try {
      for await (const piece of zip) yield piece as Uint8Array;
    } finally {
      cancel();
      zip.destroy();
    }
  }

  async #call(channel: Channel, what: string, request: Omit<FeedRequest, "signal">): Promise<Answer> {
    const abort = new AbortController();
    if (what === "heartbeat") heartbeats.add(abort);
    this.#requests.add(abort);
    let cancel = (): void => {};
    const moved = (): void => {
      cancel();
      cancel = this.#clock.after(this.#bounds.stall, () => abort.abort(new Error(`no answer in ${this.#bounds.stall} ms`)));
    };
    moved();
    const aborted = new Promise<never>((_, reject) => {
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason as Error), { once: true });
    });
    let response: FeedResponse;
    const body = request.body instanceof Uint8Array ? request.body : watched(request.body, moved);
    try {
      const sent = this.#transport({ ...request, body, signal: abort.signal });
      response = await Promise.race([sent, aborted]);
    } catch (error) {
      if (!this.#closing) this.#failed(channel, `${what}: ${reasonOf(error)}`);
      return { wait: this.#backOff(channel) };
    } finally {
      cancel();
      abort.abort();
      aborted.catch(() => {});
      // What is left of a body that nobody reads ends here too.
      if (!(body instanceof Uint8Array)) body.return(undefined).catch(() => {});
      this.#requests.delete(abort);
    }
    const data = (typeof response.data === "object" && response.data !== null ? response.data : {}) as Record<string, unknown>;
    const { status } = response;
    if (status === 200 && response.data === null) {
      this.#failed(channel, `${what}: the answer is not the service's; check COMPANION_URL`);
      return { wait: this.#backOff(channel) };
    }
    if (status === 200 || status === 409 || status === 413 || status === 422) {
      this.#succeeded(channel);
      return { status, data };
    }
    // Being asked to wait is no outage.
    if (status !== 429) this.#failed(channel, `${what}: ${meaning(status)} ${String(data["error"] ?? "")}`.trim());
    const asked = retryAfter(response.retryAfter, this.#clock.now());
    const wait = this.#backOff(channel);
    return { wait: asked === null ? wait : asked + this.#clock.random() * Math.min(1_000, asked) };
  }

  #backOff(channel: Channel): number {
    return this.#delay((this.#failures[channel] += 1));
  }

  /** Twice as long each time, of which half is chance: many processes must not come back in step. */
  #delay(times: number): number {
    const { firstRetry, lastRetry } = this.#bounds;
    const most = Math.min(lastRetry, firstRetry * 2 ** Math.min(times - 1, 30));
    return most / 2 + (this.#clock.random() * most) / 2;
  }

  #failed(channel: Channel, reason: string): void {
    if (this.#down.size === 0) {
      this.#downSince = this.#clock.now();
      this.#log.log("warn", `the service cannot be reached; the bot goes on, and it is tried again: ${reason}`);
    } else {
      this.#log.log("debug", reason);
    }
    this.#down.add(channel);
  }

  #succeeded(channel: Channel): void {
    this.#failures[channel] = 0;
    if (!this.#down.delete(channel) || this.#down.size > 0) return;
    const seconds = Math.round((this.#clock.now() - this.#downSince) / 1_000);
    this.#log.log("info", `the service is back after ${seconds} s`);
    this.#doubtful = true;
    this.#wake(0);
  }

  #bug(error: unknown): void {
    this.#log.once("error", `a fault in this package: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

function meaning(status: number): string {
  if (status === 401) return "the key is refused, check COMPANION_BOT_KEY: status 401";
  if (status === 404 || (status >= 300 && status < 400)) return `check COMPANION_URL: status ${status}`;
  return `status ${status}`;
}

/** The requests that are heartbeats: one at a time. */
const heartbeats = new WeakSet<AbortController>();

async function* watched(body: AsyncIterable<Uint8Array>, moved: () => void): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    moved();
    yield piece;
  }
  moved();
}

function fingerprint(lines: string[]): string {
  const hash = createHash("sha256");
  for (const line of lines) hash.update(line).update("\n");
  return hash.digest("base64");
}

/** The shard of a guild. */
export function shardOf(guild: string, count: number): number {
  return count > 1 ? Number((BigInt(guild) >> 22n) % BigInt(count)) : 0;
}

/** Milliseconds, from seconds or a date. */
export function retryAfter(header: string | null, now: number): number | null {
  if (header === null || header.trim() === "") return null;
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - now : seconds * 1_000;
  return Number.isNaN(ms) ? null : Math.min(LONGEST_RETRY_AFTER, Math.max(0, ms));
}

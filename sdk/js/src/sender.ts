import type { Batch, Batches } from "./batch.js";
import { type Answer, type Call, type Calls, meaning, refusedLines } from "./calls.js";
import type { Clock } from "./clock.js";
import type { Feedback } from "./feedback.js";
import type { Heartbeat } from "./heartbeat.js";
import { Backoff, type Limits } from "./limits.js";
import type { Lists } from "./lists.js";
import type { Marks } from "./marks.js";
import type { Snapshots } from "./snapshots.js";
import type { Status } from "./status.js";

export interface Parts {
  marks: Marks;
  snapshots: Snapshots;
  lists: Lists;
  feedback: Feedback;
  batches: Batches;
  heartbeat: Heartbeat;
  calls: Calls;
}

type Data = Record<string, unknown>;

/**
 * Sends everything in order, one request at a time. A batch keeps its numbers and lines until its outcome is known;
 * nothing else may be sent before that.
 */
export class Sender {
  readonly #parts: Parts;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #instance: string;
  readonly #snapshotSent: () => void;
  readonly #synced: () => void;

  /** The number of the next event. */
  #next = 1;
  /** What the service expects at least, if it has lost nothing. Null after it has asked for a resync, until it has a snapshot. */
  #after: number | null = 1;
  #batch: Batch | null = null;
  /** The service has received a heartbeat from this process, so it knows when the process started. */
  #isIntroduced = false;
  /** The service was down, so it may have lost something. */
  #isDoubtful = false;
  /** Changes go between two tries to send the subscriptions. */
  #changesFirst = false;
  /** Consecutive resyncs that the service asked for. */
  #resyncs = 0;
  readonly #failures: Backoff;
  readonly #repeatedResyncs: Backoff;
  readonly #stuckSnapshots: Backoff;

  #isClosing = false;
  #running: Promise<void> | null = null;
  #timer: { at: number; cancel: () => void } | null = null;
  #endPause = (): void => {};

  constructor(parts: Parts, clock: Clock, limits: Limits, status: Status, instance: string, on: { snapshotSent(): void; synced(): void }) {
    this.#parts = parts;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#instance = instance;
    this.#snapshotSent = on.snapshotSent;
    this.#synced = on.synced;
    this.#failures = new Backoff(limits, clock);
    this.#repeatedResyncs = new Backoff(limits, clock);
    this.#stuckSnapshots = new Backoff(limits, clock);
  }

  get batchLines(): number {
    return this.#batch?.lines.length ?? 0;
  }

  introduced(): void {
    this.#isIntroduced = true;
  }

  /** The service may have lost something: asks it. */
  doubt(): void {
    this.#isDoubtful = true;
    this.wake(0);
  }

  /** A change is waiting: sends it after a while, or immediately if there are many. */
  changed(): void {
    const { marks, feedback } = this.#parts;
    this.wake(marks.size + feedback.waiting >= this.#limits.batchLines ? 0 : this.#limits.gatherTime);
  }

  /** Sends everything again and drops what is waiting, except members who left: a snapshot without staff doesn't include them. */
  resync(): void {
    const { marks, snapshots, lists } = this.#parts;
    this.#status.counters.resyncs += 1;
    marks.drop(() => true);
    snapshots.allStale();
    if (snapshots.isReady(0)) lists.forget();
    this.#isIntroduced = false;
    this.#isDoubtful = false;
    this.wake(0);
  }

  /** Starts sending in this many milliseconds, unless it's due earlier anyway. */
  wake(ms: number): void {
    if (this.#running || this.#isClosing) return;
    const at = this.#clock.now() + ms;
    if (this.#timer && this.#timer.at <= at) return;
    this.#timer?.cancel();
    const cancel = this.#clock.after(ms, () => {
      this.#timer = null;
      void this.#run();
    });
    this.#timer = { at, cancel };
  }

  /** Sends what is waiting, each request once. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#timer?.cancel();
    this.#timer = null;
    this.#endPause();
    await this.#run();
  }

  /** Whether something is waiting to be sent. */
  get hasLeft(): boolean {
    const { marks, snapshots, feedback, lists } = this.#parts;
    return this.#batch !== null || snapshots.lowestStale() !== null || lists.hasSubscriptions || lists.isStale.team || marks.size > 0 || feedback.waiting > 0;
  }

  #run(): Promise<void> {
    this.#running ??= this.#steps().finally(() => {
      this.#running = null;
      // A listener of `synced`, or of a delivery, may have called something after the last look.
      const next = this.hasLeft || this.#isDoubtful ? 0 : this.#parts.marks.nextCount();
      if (next !== null) this.wake(next);
    });
    return this.#running;
  }

  async #steps(): Promise<void> {
    for (;;) {
      let wait: number;
      try {
        const step = this.#step();
        if (!step) return this.#synced();
        wait = await step;
      } catch (error) {
        this.#status.fault(error);
        this.resync();
        wait = this.#failures.next();
      }
      if (wait === 0) continue;
      if (this.#isClosing) return;
      await this.#pause(wait);
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

  /** The next thing to do; its result is how long to wait before another. Null if there is nothing. */
  #step(): Promise<number> | null {
    const { snapshots, lists, marks, feedback } = this.#parts;
    if (this.#batch) return this.#sendBatch(this.#batch);
    const shard = snapshots.lowestStale();
    if ((shard !== null || lists.hasSubscriptions) && !this.#isIntroduced) return this.#introduce();
    if (shard !== null) return this.#sendSnapshot(shard);
    if (lists.hasSubscriptions && !this.#changesFirst) return this.#sendSubscriptions();
    if (this.#isDoubtful) return this.#probe();
    this.#changesFirst = false;
    if (marks.size > 0 || marks.nextCount() === 0 || feedback.waiting > 0 || lists.isStale.team) return this.#makeBatch();
    return lists.hasSubscriptions ? this.#sendSubscriptions() : null;
  }

  async #introduce(): Promise<number> {
    const { heartbeat } = this.#parts;
    await heartbeat.ended();
    if (this.#isIntroduced) return 0;
    const answer = await heartbeat.send();
    if (answer?.failed) return this.#failures.next(answer.retryAfter);
    this.#failures.reset();
    this.#isIntroduced = true;
    return 0;
  }

  async #sendSnapshot(shard: number): Promise<number> {
    const { snapshots, marks } = this.#parts;
    const gone = marks.begin(snapshots.isOf(shard));
    const number = this.#next + 1;
    const answer = await this.#put(number, {
      path: snapshots.path(shard),
      lines: snapshots.begin(shard),
      understands: (status, data) => (status === 409 && hasNext(data)) || refusedLines(status, data, snapshots.size).size > 0,
    });
    if (!answer.failed && answer.status === 200) {
      this.#numbered(number);
      this.#status.counters.snapshots += 1;
      this.#status.counters.linesSent += snapshots.acknowledged(shard);
      for (const mark of gone) if (snapshots.hasStaff(mark.guild)) marks.dropMember(mark);
      this.#status.forget("changes");
      this.#noteOwners(answer.data);
      this.#snapshotSent();
      return 0;
    }
    snapshots.failed(shard);
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    if (answer.status === 409) return this.#overtaken(number, answer.data);
    for (const [line, reason] of refusedLines(422, answer.data, snapshots.size)) snapshots.refuse(line, reason);
    return 0;
  }

  async #sendSubscriptions(): Promise<number> {
    const { lists } = this.#parts;
    const listed = await lists.subscriptions();
    if (!listed) return 0;
    const { lines } = listed;
    const number = this.#next + 1;
    const answer = await this.#put(number, {
      path: "/bot/subscriptions",
      lines: [...lines, `{"end":${lines.length}}`],
      understands: (status, data) => (status === 409 && hasNext(data)) || refusedLines(status, data, lines.length).size > 0,
    });
    if (!answer.failed && answer.status === 200) {
      this.#numbered(number);
      this.#status.counters.linesSent += lines.length;
      lists.acknowledged("subscriptions", listed.print);
      return 0;
    }
    if (!answer.failed && answer.status === 422) {
      lists.refuseSubscriptions(listed, refusedLines(422, answer.data, lines.length));
      this.#changesFirst = true;
      return 0;
    }
    lists.isStale.subscriptions = true;
    if (!answer.failed) return this.#overtaken(number, answer.data);
    lists.lostSubscriptions();
    return this.#failures.next(answer.retryAfter);
  }

  /** Sends no events under the next number: if there is no gap, the service still has everything before it. */
  async #probe(): Promise<number> {
    const answer = await this.#events(this.#next, [], (status, data) => status === 409 && hasNext(data));
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    this.#isDoubtful = false;
    if (answer.status === 409) return this.#gap(this.#next, answer.data);
    this.#resyncsEnded();
    this.#noteOwners(answer.data);
    return 0;
  }

  async #makeBatch(): Promise<number> {
    this.#batch = await this.#parts.batches.make(this.#next);
    return 0;
  }

  async #sendBatch(batch: Batch): Promise<number> {
    const { batches } = this.#parts;
    const texts = batch.lines.map(({ text }) => text);
    const answer = await this.#events(batch.first, texts, (status, data) => status === 413 || status === 422 || (status === 409 && hasNext(data)));
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    const { status, data } = answer;
    const after = batch.first + batch.lines.length;
    if (status === 200) {
      this.#next = this.#after = after;
      this.#batch = null;
      this.#resyncsEnded();
      batches.acknowledged(batch);
      this.#noteOwners(data);
      return 0;
    }
    if (status === 409) {
      this.#batch = null;
      batches.returned(batch);
      return this.#gap(after, data);
    }
    const refused = refusedLines(status, data, batch.lines.length);
    if (refused.size > 0) for (const [line, reason] of [...refused].reverse()) batches.drop(batch, line, reason);
    else if (batch.lines.length === 1) batches.drop(batch, 0, meaning(status, data));
    // Halving the batch finds out which line it is, or how many are too many.
    else if (batches.halve(batch)) this.resync();
    if (batch.lines.length === 0) this.#batch = null;
    return 0;
  }

  /** Some of the process's shards may belong to one that started later, or be free again after that. */
  #noteOwners(data: Data): void {
    const { marks, snapshots, lists } = this.#parts;
    for (const shard of snapshots.replaced(data["replaced"])) {
      marks.drop(snapshots.isOf(shard));
      if (shard === 0) lists.drop();
    }
    if (snapshots.free(data["free"]).includes(0)) lists.forget();
  }

  /** The service lacks events or a snapshot. The numbers below `after` may have been used. */
  #gap(after: number, data: Data): number {
    const theirs = Number(data["next"]);
    // Without a shard there is no snapshot that could set the number.
    const { hasReady } = this.#parts.snapshots;
    this.#next = hasReady ? Math.max(after, theirs) : theirs;
    this.#after = hasReady ? null : theirs;
    this.#status.info("the service asks for everything again");
    this.resync();
    this.#resyncs += 1;
    return this.#resyncs > 1 ? this.#repeatedResyncs.next() : 0;
  }

  #resyncsEnded(): void {
    this.#resyncs = 0;
    this.#repeatedResyncs.reset();
  }

  /** A snapshot arrived too late, or at a service that lacks something: it is sent again. */
  #overtaken(number: number, data: Data): number {
    if (data["error"] !== "snapshot_outdated") return this.#gap(number, data);
    const theirs = Number(data["next"]);
    const hasMoved = theirs > this.#next;
    this.#next = Math.max(this.#next, theirs);
    this.#after = theirs;
    this.#isIntroduced = false;
    return hasMoved ? 0 : this.#stuckSnapshots.next();
  }

  /** The service has the snapshot or list with this number. */
  #numbered(number: number): void {
    this.#next = this.#after = number;
    this.#stuckSnapshots.reset();
  }

  /**
   * A snapshot or list is numbered above `next`: a service that loses it finds a gap in whatever comes after it. It says what the service
   * expects if it has lost nothing. If it fails, it may still arrive, or have arrived.
   */
  async #put(number: number, call: Omit<Call, "method" | "headers" | "channel">): Promise<Answer> {
    const answer = await this.#call(number, { method: "PUT", ...call }, this.#after === null ? {} : { "feed-after": String(this.#after) });
    if (answer.failed) this.#next = number;
    return answer;
  }

  #events(first: number, lines: string[], understands: NonNullable<Call["understands"]>): Promise<Answer> {
    return this.#call(first, { method: "POST", path: "/bot/events", lines, understands });
  }

  async #call(first: number, call: Omit<Call, "headers" | "channel">, more: Record<string, string> = {}): Promise<Answer> {
    const headers = { "content-type": "application/x-ndjson", "feed-instance": this.#instance, "feed-sequence": String(first), ...more };
    const answer = await this.#parts.calls.call({ ...call, channel: "data", headers });
    if (!answer.failed) this.#failures.reset();
    return answer;
  }
}

function hasNext(data: Data): boolean {
  return typeof data["next"] === "number" && data["next"] >= 1;
}

import type { Batch, Batches } from "./batch.js";
import type { Answer, Call, Calls } from "./calls.js";
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
  readonly #synced: () => void;

  /** The number of the next event. */
  #next = 1;
  #batch: Batch | null = null;
  /** The service has received a heartbeat from this process, so it knows when the process started. */
  #isIntroduced = false;
  /** The service was down, so it may have lost something. */
  #isDoubtful = false;
  /** Consecutive resyncs that the service asked for. */
  #resyncs = 0;
  readonly #failures: Backoff;
  readonly #repeatedResyncs: Backoff;
  readonly #stuckSnapshots: Backoff;

  #isClosing = false;
  #running: Promise<void> | null = null;
  #timer: { at: number; cancel: () => void } | null = null;
  #endPause = (): void => {};

  constructor(parts: Parts, clock: Clock, limits: Limits, status: Status, instance: string, synced: () => void) {
    this.#parts = parts;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#instance = instance;
    this.#synced = synced;
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
    const { subscriptions, team } = lists.isStale;
    return this.#batch !== null || snapshots.lowestStale() !== null || subscriptions || team || marks.size > 0 || feedback.waiting > 0;
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
    if (shard !== null || lists.isStale.subscriptions) {
      if (!this.#isIntroduced) return this.#introduce();
      return shard === null ? this.#sendSubscriptions() : this.#sendSnapshot(shard);
    }
    if (this.#isDoubtful) return this.#probe();
    if (marks.size > 0 || marks.nextCount() === 0 || feedback.waiting > 0 || lists.isStale.team) return this.#makeBatch();
    return null;
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
    const gone = marks.drop(snapshots.isOf(shard));
    const first = this.#snapshotNumber();
    const answer = await this.#call(first, {
      method: "PUT",
      path: snapshots.path(shard),
      lines: snapshots.begin(shard),
      understands: (status, data) => (status === 409 && hasNext(data)) || (status === 422 && snapshots.hasLine(data["line"])),
    });
    if (!answer.failed && answer.status === 200) {
      this.#next = first;
      this.#status.counters.snapshots += 1;
      this.#status.counters.linesSent += snapshots.acknowledged(shard);
      for (const mark of gone) if (snapshots.hasStaff(mark.guild)) marks.dropMember(mark);
      this.#status.forget("changes");
      this.#stuckSnapshots.reset();
      return 0;
    }
    snapshots.failed(shard);
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    if (answer.status === 409) return this.#overtaken(answer.data);
    snapshots.refuse(answer.data["line"], String(answer.data["reason"]));
    return 0;
  }

  async #sendSubscriptions(): Promise<number> {
    const { lists } = this.#parts;
    const listed = await lists.subscriptions();
    if (!listed) return 0;
    const { lines, print } = listed;
    const first = this.#snapshotNumber();
    const answer = await this.#call(first, {
      method: "PUT",
      path: "/bot/subscriptions",
      lines: [...lines, `{"end":${lines.length}}`],
      understands: (status, data) => (status === 409 && hasNext(data)) || (status === 422 && lines[Number(data["line"]) - 1] !== undefined),
    });
    if (!answer.failed && answer.status === 200) {
      this.#next = first;
      this.#status.counters.linesSent += lines.length;
      lists.acknowledged("subscriptions", print);
      this.#stuckSnapshots.reset();
      return 0;
    }
    lists.isStale.subscriptions = true;
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    if (answer.status === 409) return this.#overtaken(answer.data);
    lists.refuseSubscription(lines[Number(answer.data["line"]) - 1] as string, String(answer.data["reason"]));
    return 0;
  }

  /** Sends no events under the next number: if there is no gap, the service still has everything before it. */
  async #probe(): Promise<number> {
    const answer = await this.#events(this.#next, [], (status, data) => status === 409 && hasNext(data));
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    this.#isDoubtful = false;
    if (answer.status === 409) {
      this.#next = Math.max(this.#next, Number(answer.data["next"]));
      return this.#resyncRequired();
    }
    this.#resyncsEnded();
    return 0;
  }

  async #makeBatch(): Promise<number> {
    this.#batch = await this.#parts.batches.make(this.#next);
    return 0;
  }

  async #sendBatch(batch: Batch): Promise<number> {
    const { batches, snapshots } = this.#parts;
    const texts = batch.lines.map(({ text }) => text);
    const answer = await this.#events(batch.first, texts, (status, data) => status === 413 || status === 422 || (status === 409 && hasNext(data)));
    if (answer.failed) return this.#failures.next(answer.retryAfter);
    const { status, data } = answer;
    const after = batch.first + batch.lines.length;
    if (status === 200) {
      this.#next = after;
      this.#batch = null;
      this.#resyncsEnded();
      batches.acknowledged(batch);
      return 0;
    }
    if (status === 409) {
      this.#batch = null;
      batches.returned(batch);
      // Without a shard there is no snapshot that could set the number.
      this.#next = snapshots.hasReady ? Math.max(after, Number(data["next"])) : Number(data["next"]);
      return this.#resyncRequired();
    }
    const line = status === 422 ? Number(data["line"]) : 0;
    if (batch.lines[line - 1]) batches.drop(batch, line - 1, String(data["reason"]));
    else if (batch.lines.length === 1) batches.drop(batch, 0, `status ${status}`);
    // Halving the batch finds out which line it is, or how many are too many.
    else if (batches.halve(batch)) this.resync();
    if (batch.lines.length === 0) this.#batch = null;
    return 0;
  }

  #resyncRequired(): number {
    this.#status.info("the service asks for everything again");
    this.resync();
    this.#resyncs += 1;
    return this.#resyncs > 1 ? this.#repeatedResyncs.next() : 0;
  }

  #resyncsEnded(): void {
    this.#resyncs = 0;
    this.#repeatedResyncs.reset();
  }

  /** A snapshot arrived too late and is sent again. */
  #overtaken(data: Data): number {
    const theirs = Number(data["next"]);
    const hasMoved = theirs > this.#next;
    this.#next = Math.max(this.#next, theirs);
    this.#isIntroduced = false;
    return hasMoved ? 0 : this.#stuckSnapshots.next();
  }

  /** Never 1: a service that lost everything expects 1, and has to find a gap in whatever comes after a snapshot. */
  #snapshotNumber(): number {
    this.#next = Math.max(this.#next, 2);
    return this.#next;
  }

  #events(first: number, lines: string[], understands: NonNullable<Call["understands"]>): Promise<Answer> {
    return this.#call(first, { method: "POST", path: "/bot/events", lines, understands });
  }

  async #call(first: number, call: Omit<Call, "headers" | "channel">): Promise<Answer> {
    const headers = { "content-type": "application/x-ndjson", "feed-instance": this.#instance, "feed-sequence": String(first) };
    const answer = await this.#parts.calls.call({ ...call, channel: "data", headers });
    if (!answer.failed) this.#failures.reset();
    return answer;
  }
}

function hasNext(data: Data): boolean {
  return typeof data["next"] === "number" && data["next"] >= 1;
}

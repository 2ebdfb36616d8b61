import { isMainThread } from "node:worker_threads";
import type { Answer, Calls } from "./calls.js";
import type { Clock } from "./clock.js";
import { Backoff, type Limits } from "./limits.js";
import type { Status } from "./status.js";
import type { World } from "./world.js";

/** The report on the process and its shards, one at a time. */
export class Heartbeat {
  readonly #world: World;
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #instance: string;
  readonly #startedAt: number;
  readonly #acknowledged: () => void;
  readonly #backoff: Backoff;
  #underWay: Promise<Answer | null> | null = null;
  #cancel = (): void => {};
  /** When the last one began; initially, when the process started. */
  #began: number;
  /** One is due, but the library doesn't know any shard yet. */
  #isWaiting = false;
  /** The last one failed: the next is due after the retry delay, and not before. */
  #hasFailed = false;
  /** A shard has become ready, and no heartbeat has begun since. */
  #hasNews = false;
  #cancelNews: (() => void) | null = null;
  #stopped = false;
  /** The service may know this process. */
  #hasReported = false;

  constructor(world: World, calls: Calls, clock: Clock, limits: Limits, status: Status, instance: string, acknowledged: () => void) {
    this.#world = world;
    this.#calls = calls;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#instance = instance;
    this.#startedAt = clock.now();
    this.#began = this.#startedAt;
    this.#acknowledged = acknowledged;
    this.#backoff = new Backoff(limits, clock);
  }

  start(): void {
    this.#arm(0);
  }

  /** The library now knows a shard. */
  shardKnown(): void {
    if (this.#isWaiting && !this.#stopped) void this.#beat();
  }

  /** A shard has become ready: reports it before the next interval. */
  shardReady(): void {
    this.#hasNews = true;
    this.#cancelNews ??= this.#clock.after(this.#limits.gatherTime, () => {
      this.#cancelNews = null;
      void this.#tell();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.#cancelNews?.();
  }

  /** Waits for the one in progress, if there is one. */
  async ended(): Promise<void> {
    await this.#underWay?.catch(() => {});
  }

  /** Sends one, or waits for the one in progress. Null if there is nothing to report yet. */
  send(): Promise<Answer | null> {
    this.#underWay ??= this.#send().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  /** Sends the last one: the service gives this process's shards to the next one immediately. */
  async leave(): Promise<void> {
    await this.ended();
    if (this.#hasReported) await this.#send(true);
  }

  /** The next one is due after both the interval and the delay. */
  #arm(delay: number): void {
    const now = this.#clock.now();
    const next = Math.max(this.#began + this.#limits.heartbeatInterval, now + delay);
    this.#cancel();
    this.#cancel = this.#clock.after(next - now, () => void this.#beat());
  }

  async #tell(): Promise<void> {
    // The one in progress may have begun before the shard was ready.
    await this.ended();
    if (this.#hasNews && !this.#hasFailed && !this.#stopped) await this.#beat();
  }

  async #beat(): Promise<void> {
    let delay = 0;
    try {
      // One that was sent for another reason counts.
      const isDue = this.#hasNews || this.#clock.now() >= this.#began + this.#limits.heartbeatInterval;
      const answer = isDue ? await this.send() : null;
      this.#isWaiting = isDue && answer === null;
      if (this.#isWaiting) return;
      if (answer) this.#hasFailed = answer.failed;
      if (answer?.failed) delay = this.#backoff.next(answer.retryAfter);
      else if (answer) this.#backoff.reset();
    } catch (error) {
      this.#status.fault(error);
    }
    if (!this.#stopped) this.#arm(delay);
  }

  async #send(isLeaving = false): Promise<Answer | null> {
    const shards = this.#world.shards();
    if (shards.length === 0) return null;
    this.#began = this.#clock.now();
    this.#hasNews = false;
    this.#hasReported = true;
    const report = {
      instance: this.#instance,
      started_at: this.#startedAt / 1_000,
      memory: memory(),
      library: this.#world.library(),
      shard_count: this.#world.shardCount(),
      shards,
      ...(isLeaving ? { leaving: true } : {}),
    };
    const answer = await this.#calls.call({
      channel: "heartbeat",
      method: "PUT",
      path: "/bot/heartbeat",
      headers: { "content-type": "application/json" },
      lines: [JSON.stringify(report)],
    });
    if (!answer.failed) {
      this.#status.counters.heartbeats += 1;
      this.#acknowledged();
    }
    return answer;
  }
}

/** This process's memory; in a worker thread only the thread's own, because all workers share the process. */
function memory(): number {
  if (isMainThread) return process.memoryUsage.rss();
  const usage = process.memoryUsage();
  return usage.heapTotal + usage.external;
}

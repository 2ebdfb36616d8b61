import type { Clock } from "./clock.js";
import type { Status } from "./status.js";

/** Sizes and times. All times are milliseconds. */
export interface Limits {
  /** The time between heartbeats. */
  heartbeatInterval: number;
  /** How long the first change waits for others to share its request. */
  gatherTime: number;
  /** The most lines in one events request. */
  batchLines: number;
  /** The most bytes in one events request, before compression. */
  batchBytes: number;
  /** The most bytes in a line; a longer one is not sent. */
  lineBytes: number;
  /** The most waiting changes; beyond that, every shard is sent as a whole instead. */
  changes: number;
  /** The most waiting feedback entries; further ones are refused. */
  feedback: number;
  /** The most feedback lines in one events request, so that feedback doesn't hold up changes. */
  feedbackLines: number;
  /** After any line about a guild, its member count alone is not sent for this long. */
  memberCountInterval: number;
  /** The time between checks of subscriptions, team, and whether the service still has everything. */
  refreshInterval: number;
  /** The time limit for one callback, including iterating over its result. */
  callbackTimeout: number;
  /** How long to wait before calling a failed callback again. */
  callbackRetry: number;
  /** Guilds whose callbacks run at the same time. */
  callbacksAtOnce: number;
  /** Pages of members per second, for all of the bot's processes together. Each process uses its shards' share. */
  listingRate: number;
  /** The delay after a failed listing of members; doubles, up to 5 minutes. */
  listingRetry: number;
  /** How often a list of subscriptions is sent. If the last try is refused too, none are sent until the callback returns something else. */
  subscriptionTries: number;
  /** A request without progress for this long has failed. */
  stallTimeout: number;
  /** A snapshot whose lines come slowly still sends what it has at least this often. */
  flushInterval: number;
  /** The delay after the first failure; doubles with each one. */
  firstRetry: number;
  longestRetry: number;
  /** A longer `Retry-After` is shortened to this. */
  longestRetryAfter: number;
  /** The time limit of `close()`. */
  closeTimeout: number;
}

export const DEFAULT_LIMITS: Limits = {
  heartbeatInterval: 15_000,
  gatherTime: 500,
  batchLines: 500,
  batchBytes: 1024 * 1024,
  lineBytes: 1024 * 1024,
  changes: 20_000,
  feedback: 1_000,
  feedbackLines: 100,
  memberCountInterval: 60_000,
  refreshInterval: 300_000,
  callbackTimeout: 15_000,
  callbackRetry: 60_000,
  callbacksAtOnce: 16,
  listingRate: 10,
  listingRetry: 5_000,
  subscriptionTries: 5,
  stallTimeout: 30_000,
  flushInterval: 5_000,
  firstRetry: 1_000,
  longestRetry: 60_000,
  longestRetryAfter: 3_600_000,
  closeTimeout: 5_000,
};

/** At a lower rate, listing a large bot's members would take weeks. */
const LOWEST_LISTING_RATE = 0.01;

/** The defaults with the given values. Throws if a value is wrong; an unknown name is only logged. */
export function readLimits(given: Partial<Limits> | undefined, status: Status): Limits {
  const limits = { ...DEFAULT_LIMITS };
  for (const [name, value] of Object.entries(given ?? {}) as [keyof Limits, unknown][]) {
    if (value === undefined) continue;
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) {
      status.warn(`the option limits has no ${name}: it is ignored`);
      continue;
    }
    const least = name === "listingRate" ? LOWEST_LISTING_RATE : 0;
    if (typeof value !== "number" || !Number.isFinite(value) || value < least) {
      throw new Error(`the option limits.${name} must be a number of at least ${least}`);
    }
    limits[name] = value;
  }
  return limits;
}

/** How long to wait after the n-th failure in a row. Half of it is random, so that many processes don't retry in step. */
export class Backoff {
  readonly #limits: Limits;
  readonly #clock: Clock;
  #failures = 0;

  constructor(limits: Limits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Counts a failure. `asked` is the service's own Retry-After; the longer wait counts. */
  next(asked: number | null = null): number {
    this.#failures += 1;
    const random = this.#clock.random();
    const { firstRetry, longestRetry } = this.#limits;
    const delay = Math.min(longestRetry, firstRetry * 2 ** Math.min(this.#failures - 1, 30));
    const asLongAsAsked = asked === null ? 0 : asked + random * Math.min(1_000, asked);
    return Math.max(asLongAsAsked, delay / 2 + (random * delay) / 2);
  }

  reset(): void {
    this.#failures = 0;
  }
}

import type { Clock } from "./clock.js";
import type { Limits } from "./limits.js";
import type { World } from "./world.js";

/** Each limit halves the rate, down to this fraction of it. */
const SLOWEST = 16;
/** After this long without another limit, the rate is back to normal. */
const RECOVERY = 60_000;

/** The rate limit for member listings: one for all guilds, so that Discord always has room for the bot's own requests. */
export class Budget {
  readonly #world: World;
  readonly #clock: Clock;
  readonly #limits: Limits;
  /** How many times slower than usual. */
  #slowness = 1;
  /** Runs until the next page may start. */
  #cancelInterval: (() => void) | null = null;
  /** Discord rate limits the bot until then. */
  #hold: { end: number; cancel: () => void } | null = null;
  #cancelRecovery = (): void => {};
  #wake = (): void => {};
  #isClosed = false;

  constructor(world: World, clock: Clock, limits: Limits) {
    this.#world = world;
    this.#clock = clock;
    this.#limits = limits;
  }

  get slowness(): number {
    return this.#slowness;
  }

  /** Waits until a page may be requested. There is one waiter at a time. */
  async turn(): Promise<void> {
    while (!this.#isClosed && (this.#cancelInterval || this.#hold)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** A page is being requested. */
  spend(): void {
    this.#cancelInterval?.();
    this.#cancelInterval = this.#clock.after(this.#interval(), () => {
      this.#cancelInterval = null;
      this.#wake();
    });
  }

  /** Discord rate limits the bot for this many milliseconds. */
  limited(ms: number): void {
    if (this.#isClosed) return;
    const wait = Math.min(Math.max(0, ms), this.#limits.longestRetryAfter);
    const end = this.#clock.now() + wait;
    if (this.#hold && end <= this.#hold.end) return;
    if (!this.#hold) this.#slowness = Math.min(SLOWEST, this.#slowness * 2);
    this.#hold?.cancel();
    this.#cancelRecovery();
    // A timer, not a comparison of times: the machine's clock may be set back.
    const cancel = this.#clock.after(wait, () => {
      this.#hold = null;
      this.#cancelRecovery = this.#clock.after(RECOVERY, () => {
        this.#slowness = 1;
      });
      this.#wake();
    });
    this.#hold = { end, cancel };
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelInterval?.();
    this.#hold?.cancel();
    this.#cancelRecovery();
    this.#wake();
  }

  /** Milliseconds between pages; the bot's other processes share Discord's limit. */
  #interval(): number {
    const all = Math.max(1, this.#world.shardCount());
    const own = Math.min(all, Math.max(1, this.#world.shards().length));
    return (1_000 * all * this.#slowness) / (this.#limits.listingRate * own);
  }
}

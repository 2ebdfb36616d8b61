import type { Clock } from "../src/index.js";

/** A clock that only moves when the test says so. */
export class SimulatedClock implements Clock {
  #now: number;
  #timers: { at: number; call: () => void }[] = [];

  constructor(now = 1_700_000_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, call: () => void): () => void {
    const timer = { at: this.#now + ms, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }

  breathe(): Promise<void> {
    return Promise.resolve();
  }

  random(): number {
    return 0.5;
  }

  get timers(): number {
    return this.#timers.length;
  }

  /** Advances the clock timer by timer, and runs everything that each of them triggers. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settled();
    for (;;) {
      const due = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#timers = this.#timers.filter((one) => one !== due);
      this.#now = Math.max(this.#now, due.at);
      due.call();
      await settled();
    }
    this.#now = end;
  }
}

/** All work runs in promises, which settle before the next turn of the event loop. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Time and randomness, passed in so that a test can make an hour pass in an instant. */
export interface Clock {
  /** Epoch milliseconds, the same time as the library's own stamps. */
  now(): number;
  /** Calls back after this many milliseconds without keeping the process alive. The returned function cancels it. */
  after(ms: number, call: () => void): () => void;
  /** Lets everything else on the event loop run. */
  breathe(): Promise<void>;
  /** At least 0, below 1. */
  random(): number;
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    // Node runs a longer timer immediately.
    const timer = setTimeout(call, Math.min(ms, 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
  breathe: () => new Promise((resolve) => setImmediate(resolve)),
  random: () => Math.random(),
};

/** The promise's result, or a rejection once time is up. */
export function within<T>(clock: Clock, ms: number, promise: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error(`it took longer than ${ms / 1_000} s`)));
    promise.then(
      (value) => {
        cancel();
        resolve(value);
      },
      (reason: unknown) => {
        cancel();
        reject(reason);
      },
    );
  });
}

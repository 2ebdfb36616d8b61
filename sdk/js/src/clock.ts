/** Time and chance, handed in so that a test can make an hour pass at once. */
export interface Clock {
  /** Epoch milliseconds, the same time as the library's own stamps. */
  now(): number;
  /** Calls back after so many milliseconds without keeping the process alive; the answer cancels. */
  after(ms: number, call: () => void): () => void;
  /** Lets everything else on the event loop run. */
  breathe(): Promise<void>;
  /** At least 0, below 1. */
  random(): number;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  breathe: () => new Promise((resolve) => setImmediate(resolve)),
  random: () => Math.random(),
};

/** The promise's outcome, or a rejection once the time is over. */
export function within<T>(clock: Clock, ms: number, what: string, promise: PromiseLike<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error(`${what} took longer than ${ms} ms`)));
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

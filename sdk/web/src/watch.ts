// A read that is repeated whenever its topic changes, and after failures.
import { follow, isPassing, rest, sleep } from "./call.js";
import { CompanionError } from "./errors.js";
import { type Live, isPrivate } from "./live.js";
import type { ReadOptions } from "./reads.js";
import type { SessionStore } from "./session.js";
import type { Topic } from "./types.js";

/** What `watch` reports. If a read fails, `data` is from the last one that worked. */
export interface Reading<T> {
  readonly data: T | undefined;
  readonly error: CompanionError | undefined;
  /** Whether someone waits for this read: after `reload`, or after signing in. Not set when the data is renewed by itself. */
  readonly loading: boolean;
  /** When the service got `data` (guilds come from the provider), in milliseconds since 1970 by this machine's clock. `undefined` if
   * `read` doesn't pass its options on to one of the client's reads. */
  readonly updatedAt: number | undefined;
}

export interface Watch {
  /** Reads now. */
  reload(options?: { fresh?: boolean }): void;
  stop(): void;
}

export interface WatchOptions {
  /** The longest random wait after a change, in milliseconds (default: 2,000), so that not all visitors read at the same moment. */
  jitter?: number | undefined;
}

/** How long the first read waits for the live stream, in milliseconds. Before the stream is open, it could miss a change, and be repeated. */
const FIRST = 500;
const RETRY = 1000;

const NOTHING = { data: undefined, error: undefined, updatedAt: undefined };

export function watch<T>(
  { live, sessions, page, closing }: { live: Live; sessions: SessionStore; page: Window | undefined; closing: AbortSignal },
  topic: Topic,
  read: (options: ReadOptions) => Promise<T>,
  listener: (reading: Reading<T>) => void,
  { jitter = 2000 }: WatchOptions,
): Watch {
  let reading: Reading<T> = { ...NOTHING, loading: false };
  const say = (change: Partial<Reading<T>>) => listener((reading = { ...reading, ...change }));
  const all = new AbortController();
  let turn = follow(all.signal);
  /** A change is covered by a read that is due, but a read in progress may have missed it. */
  let phase: "idle" | "first" | "due" | "reading" | "failed" = "idle";
  let isMissed = false;
  let failures = 0;

  const load = async (next: typeof phase, wait: number, fresh = false, failed?: CompanionError) => {
    turn.abort();
    turn = follow(all.signal);
    const own = turn.signal;
    let result: Partial<Reading<T>>;
    let error: CompanionError | undefined;
    try {
      phase = next;
      await (failed ? rest(RETRY, failures++, failed.retryAfter, own, page) : sleep(wait, own));
      phase = "reading";
      isMissed = false;
      let updatedAt: number | undefined;
      const data = await read({ signal: own, cache: "no-cache", fresh, received: (time) => (updatedAt = time) });
      result = { data, error, updatedAt };
      failures = 0;
    } catch (cause) {
      error = cause instanceof CompanionError ? cause : new CompanionError("bad_answer", String(cause), { cause });
      result = { error };
    }
    // A newer read has replaced this one, or it was stopped.
    if (own.aborted || closing.aborted) return;
    phase = "idle";
    if (!error) {
      if (isMissed) soon();
    } else if (isPassing(error)) {
      // A change doesn't make it earlier than the service has said.
      void load(error.retryAfter ? "due" : "failed", 0, fresh, error);
    }
    say({ ...result, loading: false });
  };
  const soon = () => void load("due", Math.random() * jitter);

  const isMine = isPrivate(topic);
  const isOut = () => isMine && !sessions.get();
  const begin = () => {
    turn.abort();
    phase = "idle";
    if (!isOut()) void load("first", FIRST);
  };
  begin();
  const unlive = live.add((topics) => {
    if (!topics.includes(topic) || isOut()) return;
    if (phase === "reading") isMissed = true;
    else if (phase === "first") void load("first", 0);
    else if (phase !== "due") soon();
  }, true);
  const forget = sessions.on((session) => {
    if (!isMine) return;
    begin();
    say({ ...NOTHING, loading: !!session });
  });
  return {
    stop() {
      all.abort();
      unlive();
      forget();
    },
    reload({ fresh = false } = {}) {
      if (all.signal.aborted || isOut()) return;
      void load("due", 0, fresh);
      say({ loading: true });
    },
  };
}

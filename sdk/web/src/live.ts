// The stream of changes: one for all tabs that share a session, reopened whenever it is lost.
import { type Fetch, failure, send, sleep } from "./call.js";
import { CompanionError } from "./errors.js";
import type { Message, SessionStore } from "./session.js";
import type { Topic } from "./types.js";

export type LiveListener = (topics: Topic[]) => void;

const PUBLIC: Topic[] = ["status", "team", "feedback", "stats"];
const PRIVATE: Topic[] = ["guilds", "sessions", "me"];
/** The service sends a comment every 15 seconds. */
const SILENCE = 50_000;
const LONGEST_WAIT = 60_000;

export const isPrivate = (topic: Topic): boolean => PRIVATE.includes(topic);

export class Live {
  readonly #listeners = new Set<LiveListener>();
  #stop: AbortController | undefined;
  #retry = 3000;
  /** Whether a stream is open, or another tab has it: a new listener then waits for no first event. */
  #open = false;

  constructor(
    readonly fetch: Fetch,
    readonly url: string,
    readonly sessions: SessionStore,
    /** For electing the tab that holds the stream; none if tabs cannot share one. */
    readonly locks: LockManager | undefined,
  ) {}

  /** `first`: with every topic to begin with, as its own stream would have it. */
  add(listener: LiveListener, first: boolean): () => void {
    const own: LiveListener = (topics) => listener(topics);
    this.#listeners.add(own);
    if (!this.#stop) {
      const stop = (this.#stop = new AbortController());
      // Only a stop ends it with an error.
      this.#run(stop.signal).catch(() => undefined);
    } else if (first && this.#open) this.#tell(this.#all(), [own]);
    return () => {
      if (this.#listeners.delete(own) && !this.#listeners.size) this.close();
    };
  }

  close(): void {
    this.#listeners.clear();
    this.#stop?.abort();
    this.#stop = undefined;
    this.#open = false;
  }

  /** What the tab with the stream has heard. */
  hear({ changed }: Message): void {
    if (changed) this.#tell(changed as Topic[]);
  }

  #all(): Topic[] {
    return this.sessions.get() ? [...PUBLIC, ...PRIVATE] : PUBLIC;
  }

  #tell(topics: Topic[], listeners: Iterable<LiveListener> = this.#listeners): void {
    for (const listener of listeners) {
      // A listener that throws disturbs neither the others nor the stream.
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener([...topics]);
      });
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    if (!this.locks) return this.#hold(signal);
    const name = `${this.sessions.key}:live`;
    const held = await this.locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock) await this.#hold(signal);
      return lock;
    });
    if (held || signal.aborted) return;
    this.#open = true;
    this.#tell(this.#all());
    // Granted when the other tab is closed, or listens no more.
    await this.locks.request(name, { signal }, () => this.#hold(signal));
  }

  /** Keeps a stream open until the signal aborts. */
  async #hold(signal: AbortSignal): Promise<void> {
    let failures = 0;
    /** Does something that is given up when the signal aborts, or when the session is another. */
    const within = async (work: (own: AbortController) => Promise<void>): Promise<unknown> => {
      const own = new AbortController();
      const abort = () => own.abort();
      signal.addEventListener("abort", abort);
      const forget = this.sessions.on(abort);
      try {
        return await work(own);
      } catch (error) {
        return error;
      } finally {
        forget();
        signal.removeEventListener("abort", abort);
      }
    };
    while (!signal.aborted) {
      const token = this.sessions.get()?.token;
      const error = await within((own) => this.#read(token, own, () => (failures = 0)));
      this.#open = false;
      let wait = 0;
      if (error instanceof CompanionError) {
        wait = (error.retryAfter ?? 0) * 1000;
        if (token && error.code === "token_invalid") this.sessions.end(token);
      }
      // Another session has another stream, at once.
      if (signal.aborted || this.sessions.get()?.token !== token) continue;
      wait += Math.min(LONGEST_WAIT, this.#retry * 2 ** failures++) * (0.5 + Math.random());
      await within((own) => sleep(wait, own.signal));
    }
  }

  async #read(token: string | undefined, lost: AbortController, good: () => void): Promise<void> {
    let watchdog: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => lost.abort(), SILENCE);
    };
    try {
      alive();
      const response = await send(this.fetch, this.url + (token ? "/me/live" : "/live"), {
        headers: token ? { Token: token } : {},
        cache: "no-store",
        signal: lost.signal,
      });
      if (!response.ok || !response.body) throw await failure(response);
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      for (let rest = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        alive();
        const messages = (rest + decoder.decode(value, { stream: true })).split("\n\n");
        rest = messages.pop() as string;
        for (const message of messages) {
          const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, "m").exec(message)?.[1];
          this.#retry = Number(field("retry")) || this.#retry;
          if (field("event") === "ended" && token) return this.sessions.end(token);
          if (field("event") !== "changed") continue;
          good();
          this.#open = true;
          const { changed } = JSON.parse(field("data") ?? "{}") as { changed: Topic[] };
          this.sessions.tell({ changed });
          this.#tell(changed);
        }
      }
    } finally {
      clearTimeout(watchdog);
      // Whatever ended it, no connection stays open.
      lost.abort();
    }
  }
}

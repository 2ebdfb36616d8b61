// The live stream, reopened whenever it is lost.
import { type Fetch, failure, send, sleep } from "./call.js";
import { CompanionError } from "./errors.js";
import type { Session, SessionStore } from "./session.js";
import type { Share } from "./tabs.js";
import type { Topic } from "./types.js";

export type LiveListener = (topics: Topic[]) => void;

const PUBLIC: Topic[] = ["status", "team", "feedback", "stats"];
const PRIVATE: Topic[] = ["guilds", "sessions", "me"];
/** How long to wait for data, in milliseconds. The service sends a comment every 15 seconds. */
const SILENCE = 50_000;
const LONGEST_WAIT = 60_000;

export const isPrivate = (topic: Topic): boolean => PRIVATE.includes(topic);

export class Live {
  readonly #listeners = new Set<LiveListener>();
  #stop: AbortController | undefined;
  #retry = 3000;
  /** Whether this tab or the leading tab has an open stream. If so, a new listener is called at once. */
  #open = false;

  constructor(
    readonly fetch: Fetch,
    readonly url: string,
    readonly sessions: SessionStore,
    /** Shares the stream among tabs, if the page wants that. */
    private share: Share | undefined,
    /** Whether all tabs have the same session. If not, they only share the public stream. */
    readonly isSame: boolean,
  ) {}

  /** With `first`, the listener is called with all topics, even if the stream is already open. */
  add(listener: LiveListener, first: boolean): () => void {
    const own: LiveListener = (topics) => listener(topics);
    this.#listeners.add(own);
    if (!this.#stop) {
      this.#stop = new AbortController();
      void this.#run(this.#stop.signal);
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

  #all(): Topic[] {
    return this.sessions.get() ? [...PUBLIC, ...PRIVATE] : PUBLIC;
  }

  #tell(topics: Topic[], listeners: Iterable<LiveListener> = this.#listeners): void {
    for (const listener of listeners) {
      // In a microtask, so that a listener that throws stops neither the others nor the stream.
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener([...topics]);
      });
    }
  }

  /** Keeps a stream open until the signal aborts, and switches to a new one when the session changes. */
  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const own = follow(signal);
      const forget = this.sessions.on(() => own.abort());
      const session = this.sessions.get();
      const lead = (say: (topics: Topic[]) => void, leading: AbortSignal) => this.#hold(session, leading, say);
      try {
        // The name contains the user, so that tabs of different users never share, not even while a sign-in spreads from tab to tab.
        if (this.share && (this.isSame || !session)) {
          await this.share(
            `${this.sessions.key}:live:${session?.user.id ?? ""}`,
            lead,
            (topics) => {
              this.#open = true;
              this.#tell((topics as Topic[] | undefined) ?? this.#all());
            },
            own.signal,
          );
        } else await lead(() => undefined, own.signal);
      } catch {
        // Either an abort, or sharing doesn't work here.
        if (!own.signal.aborted) this.share = undefined;
      }
      forget();
      own.abort();
      if (!signal.aborted) this.#open = false;
    }
  }

  async #hold(session: Session | null, signal: AbortSignal, say: (topics: Topic[]) => void): Promise<void> {
    for (let failures = 0; ; ) {
      let wait = 0;
      try {
        await this.#read(session?.token, follow(signal), say, () => (failures = 0));
      } catch (error) {
        if (error instanceof CompanionError) {
          wait = (error.retryAfter ?? 0) * 1000;
          if (session && error.code === "token_invalid") this.sessions.end(session.token, "ended");
        }
      }
      if (signal.aborted) return;
      this.#open = false;
      wait += Math.min(LONGEST_WAIT, this.#retry * 2 ** failures++) * (0.5 + Math.random());
      await sleep(wait, signal);
    }
  }

  async #read(token: string | undefined, lost: AbortController, say: (topics: Topic[]) => void, good: () => void): Promise<void> {
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
          if (field("event") === "ended" && token) return this.sessions.end(token, "ended");
          if (field("event") !== "changed") continue;
          good();
          this.#open = true;
          const { changed } = JSON.parse(field("data") ?? "{}") as { changed: Topic[] };
          say(changed);
          this.#tell(changed);
        }
      }
    } finally {
      clearTimeout(watchdog);
      // Never leaves a connection open.
      lost.abort();
    }
  }
}

/** A controller that aborts when the signal does. It can also be aborted earlier. */
function follow(signal: AbortSignal): AbortController {
  const own = new AbortController();
  const abort = () => own.abort();
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { signal: own.signal });
  return own;
}

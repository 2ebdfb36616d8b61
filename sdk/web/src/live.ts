// The live stream, reopened whenever it is lost.
import { type Fetch, failure, follow, rest, send, sleep } from "./call.js";
import { CompanionError } from "./errors.js";
import type { Session, SessionStore } from "./session.js";
import type { Share } from "./tabs.js";
import type { Topic } from "./types.js";

export type LiveListener = (topics: Topic[]) => void;

const PUBLIC: Topic[] = ["status", "team", "feedback", "stats"];
const PRIVATE: Topic[] = ["guilds", "sessions", "me"];
/** How long to wait for data, in milliseconds. The service sends a comment every 15 seconds. */
const SILENCE = 25_000;
/** As long as timers can. */
const FOREVER = 2 ** 31 - 1;

export const isPrivate = (topic: Topic): boolean => PRIVATE.includes(topic);

export interface Live {
  /** Calls the listener with the topics that have changed. With `first`, also at once if the stream is already open, with all of them. */
  add(listener: LiveListener, first: boolean): () => void;
  close(): void;
}

export function makeLive(
  fetch: Fetch,
  url: string,
  sessions: SessionStore,
  page: Window | undefined,
  /** Shares the stream among tabs, if the page wants that. */
  share: Share | undefined,
  /** Whether all tabs have the same session. If not, they only share the public stream. */
  isSame: boolean,
): Live {
  const listeners = new Set<LiveListener>();
  let running: AbortController | undefined;
  let retry = 3000;
  let failures = 0;
  /** Whether this tab or the leading tab has an open stream. If so, a new listener is called at once. */
  let isOpen = false;

  const all = () => (sessions.get() ? [...PUBLIC, ...PRIVATE] : PUBLIC);
  const tell = (topics: Topic[], some: Iterable<LiveListener> = listeners) => {
    for (const listener of some) {
      // In a microtask, so that a listener that throws stops neither the others nor the stream.
      queueMicrotask(() => {
        if (listeners.has(listener)) listener([...topics]);
      });
    }
  };

  /** Keeps a stream open while the page is visible, and switches to a new one when the session changes. */
  async function run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const turn = follow(signal);
      const own = turn.signal;
      const again = () => turn.abort();
      const forget = sessions.on(again);
      page?.addEventListener("visibilitychange", again, { signal: own });
      const session = sessions.get();
      const lead = (say: (topics: Topic[]) => void) => hold(session, own, say);
      try {
        if (page?.document.hidden) await sleep(FOREVER, own);
        // The name contains the user, so that tabs of different users never share, not even while a sign-in spreads from tab to tab.
        if (share && (isSame || !session)) {
          await share(
            `${sessions.key}:live:${session?.user.id ?? ""}`,
            lead,
            (topics) => {
              isOpen = true;
              tell((topics as Topic[] | undefined) ?? all());
            },
            own,
          );
        } else await lead(() => undefined);
      } catch {
        // Either an abort, or sharing doesn't work here.
        if (!own.aborted) share = undefined;
      }
      forget();
      again();
      if (!signal.aborted) isOpen = false;
    }
  }

  async function hold(session: Session | null, signal: AbortSignal, say: (topics: Topic[]) => void): Promise<void> {
    for (failures = 0; ; ) {
      let retryAfter: number | undefined;
      try {
        await read(session?.token, follow(signal), say);
      } catch (error) {
        if (error instanceof CompanionError) {
          ({ retryAfter } = error);
          if (session && error.code === "token_invalid") sessions.end(session.token, "ended");
        }
      }
      if (signal.aborted) return;
      isOpen = false;
      // The stream doesn't come back.
      if (failures === 1) doubt(say);
      await rest(retry, failures++, retryAfter, signal, page);
    }
  }

  /** Makes every tab read, which shows whether the service is gone. */
  const doubt = (say: (topics: Topic[]) => void) => {
    say(all());
    tell(all());
  };

  async function read(token: string | undefined, lost: AbortController, say: (topics: Topic[]) => void): Promise<void> {
    let watchdog: ReturnType<typeof setTimeout> | undefined;
    const lose = () => lost.abort();
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => {
        lose();
        doubt(say);
      }, SILENCE);
    };
    // The connection may not have survived, and nothing else would say so.
    page?.addEventListener("online", lose, { signal: lost.signal });
    try {
      alive();
      const response = await send(fetch, url + (token ? "/me/live" : "/live"), {
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
          retry = Number(field("retry")) || retry;
          if (field("event") === "ended" && token) return sessions.end(token, "ended");
          if (field("event") !== "changed") continue;
          failures = 0;
          isOpen = true;
          const { changed } = JSON.parse(field("data") ?? "{}") as { changed: Topic[] };
          say(changed);
          tell(changed);
        }
      }
    } finally {
      clearTimeout(watchdog);
      // Never leaves a connection open.
      lose();
    }
  }

  const close = () => {
    listeners.clear();
    running?.abort();
    running = undefined;
    isOpen = false;
  };
  return {
    add(listener, first) {
      const own: LiveListener = (topics) => listener(topics);
      listeners.add(own);
      if (!running) void run((running = new AbortController()).signal);
      else if (first && isOpen) tell(all(), [own]);
      return () => {
        if (listeners.delete(own) && !listeners.size) close();
      };
    },
    close,
  };
}

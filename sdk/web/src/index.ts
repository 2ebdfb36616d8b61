// The browser client: sign-in, session, reads and live updates.
import { CODE_LIFE, type Call, type Fetch, call, isSignInAgain, sleep, updatedAt } from "./call.js";
import { CompanionError } from "./errors.js";
import { Live, type LiveListener, isPrivate } from "./live.js";
import { safePath } from "./path.js";
import { authorizePage, random } from "./pkce.js";
import { type ReadOptions, type Reads, makeReads } from "./reads.js";
import { type Message, type Session, type SessionListener, SessionStore, type SessionStorage, reliable } from "./session.js";
import type { Share } from "./tabs.js";
import type { NewSession, SignInOptions, Topic, User } from "./types.js";

export { updatedAt } from "./call.js";
export { CompanionError, type ErrorCode, type LocalErrorCode } from "./errors.js";
export type { LiveListener } from "./live.js";
export type { ReadOptions, Reads } from "./reads.js";
export type { Session, SessionEnd, SessionListener, SessionStorage } from "./session.js";
export type { Share } from "./tabs.js";
export type * from "./types.js";

export interface CompanionOptions {
  /** The service's URL. */
  url: string;
  /** Where to keep the session: `"local"` (all tabs, the default), `"session"` (one tab, survives a reload), `"memory"` (until a reload), or your own. */
  storage?: "local" | "session" | "memory" | SessionStorage | undefined;
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined;
  /** Pass `shareTabs` from `@bot-companion/web/tabs` to share one live stream among all tabs. */
  tabs?: ((page: Window & typeof globalThis) => Share) | undefined;
}

export interface SignedIn {
  user: User;
  /** The page to go back to: the `returnTo` of `signIn`, or where the user was. Always a path on this origin. */
  returnTo: string;
}

/** What `watch` reports. If a read fails, `data` is from the last one that worked. */
export interface Reading<T> {
  readonly data: T | undefined;
  readonly error: CompanionError | undefined;
  readonly loading: boolean;
  /** When the service got `data` (guilds come from the provider), in milliseconds since 1970. `undefined` if `read` returns anything
   * other than the result of one of the client's reads. */
  readonly updatedAt: number | undefined;
}

export interface Watch {
  /** Reads now. */
  reload(options?: { fresh?: boolean }): void;
  stop(): void;
}

export interface Companion extends Reads {
  /** Goes to the provider's page. Code after an `await` may still run. After `handleCallback`, the user returns to `returnTo`, by
   * default the current page. */
  signIn(options?: { returnTo?: string | undefined; signal?: AbortSignal | undefined }): Promise<void>;
  /** Completes the sign-in on the page at the redirect URL. If the URL has no `state` from this client, returns `null` and leaves the
   * URL alone. Safe to call twice. */
  handleCallback(location?: { href: string }): Promise<SignedIn | null>;
  /** The signed-in user and their token. Returns the same object until the session changes. */
  session(): Session | null;
  /** Calls the listener when someone signs in or out, in any tab. Returns a function that removes the listener. */
  onSession(listener: SessionListener): () => void;
  /** Signs out here at once, then ends the session at the service. If the service can't be reached, this throws, and the client
   * retries as long as this page is open. */
  signOut(): Promise<void>;
  /** Ends all of the user's sessions. If this throws, the user is still signed in here. */
  signOutEverywhere(): Promise<void>;
  /** Calls the listener with the topics that have changed, first with all of them. Returns a function that removes the listener. */
  live(listener: LiveListener, options?: { signal?: AbortSignal | undefined }): () => void;
  /** Reads now, whenever the topic changes, and when someone signs in or out. Bypasses the browser's cache. After a change, waits for a
   * random time of up to `jitter` (default: 2,000 ms). */
  watch<T>(
    topic: Topic,
    read: (options: ReadOptions) => Promise<T>,
    listener: (reading: Reading<T>) => void,
    options?: { signal?: AbortSignal | undefined; jitter?: number | undefined },
  ): Watch;
  /** Closes streams and removes listeners. The user stays signed in. */
  close(): void;
}

/** A sign-in that this tab has started. */
interface PendingSignIn {
  state: string;
  url: string;
  verifier: string;
  returnTo: string;
}

/** Marks this client's `state`, because the site may have other kinds of sign-in. */
const STATE_PREFIX = "bc_";
const PENDING_KEY = "bot-companion:sign-in";
/** How many started sign-ins to remember. */
const MAX_PENDING = 5;
/** In milliseconds. */
const SIGN_OUT_RETRY = 30_000;

const isOver = (error: unknown): boolean => (error as CompanionError).code === "token_invalid";

export function createCompanion(options: CompanionOptions): Companion {
  const url = options.url.replace(/\/+$/, "");
  const fetch: Fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, { credentials: "omit", ...init }));
  const key = `bot-companion:${url}`;
  // On a server there is no page, so nothing is stored and no one is signed in.
  const page = typeof window === "undefined" ? undefined : window;

  const { storage = "local" } = options;
  let store: SessionStorage | undefined;
  try {
    if (typeof storage === "object") store = storage;
    else if (storage === "local") store = page?.localStorage;
    else if (storage === "session") store = page?.sessionStorage;
  } catch {
    // The browser blocks it, so keep the session in memory.
  }

  const kept = reliable(store);
  const channel = page && "BroadcastChannel" in page ? new page.BroadcastChannel(key) : undefined;
  let closed = false;
  const tell = (message: Message) => {
    // A closed channel throws, and a pending call can still end the session.
    if (!closed) channel?.postMessage(message);
  };
  const sessions = new SessionStore(key, kept, tell);
  const live = new Live(fetch, url, sessions, page && options.tabs?.(page), storage === "local" && !!store);
  const look = () => sessions.look();
  if (channel) {
    channel.onmessage = ({ data }: { data: Message }) => {
      if (data.session) look();
      const session = sessions.get();
      if (session && data.ended === session.user.id) sessions.end(session.token, "signed_out");
    };
  }

  /** Tokens of sessions that have ended here but not yet at the service. Never stored: the next person at this computer could use them. */
  const endings = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const endAtService = async (token: string) => {
    try {
      await call(fetch, `${url}/auth`, { method: "DELETE", keepalive: true, headers: { Token: token } });
    } catch (error) {
      if (!isOver(error)) {
        clearTimeout(timer);
        if (!closed) timer = setTimeout(endAll, SIGN_OUT_RETRY);
        throw error;
      }
    }
    endings.delete(token);
  };
  const endAll = () => {
    for (const token of endings) endAtService(token).catch(() => undefined);
  };

  // A page restored from the back/forward cache has missed all changes.
  const events = { storage: look, pageshow: look, online: endAll };
  for (const [name, heard] of Object.entries(events)) page?.addEventListener(name, heard);

  async function authorized<T>(path: string, request: Call, { token } = sessions.get() ?? { token: "" }): Promise<T> {
    if (!token) throw new CompanionError("token_missing", "No one is signed in.");
    try {
      return await call<T>(fetch, url + path, { ...request, headers: { ...request.headers, Token: token } });
    } catch (error) {
      if (isOver(error)) sessions.end(token, "ended");
      throw error;
    }
  }
  const reads = makeReads((path, request, token) => (token ? authorized(path, request) : call(fetch, url + path, request)));

  /** The result of this page's callback, for React's second effect. Kept until the session ends or the next sign-in starts. */
  let handled: { addresses: string[]; result: Promise<SignedIn> } | undefined;
  sessions.on((session) => {
    if (!session) handled = undefined;
  });

  const readPending = (): PendingSignIn[] => {
    try {
      return JSON.parse(page?.sessionStorage.getItem(PENDING_KEY) ?? "[]") as PendingSignIn[];
    } catch {
      // Storage is blocked or damaged, so there's no sign-in to finish.
      return [];
    }
  };
  const setPending = (all: PendingSignIn[]) =>
    all.length ? page?.sessionStorage.setItem(PENDING_KEY, JSON.stringify(all.slice(-MAX_PENDING))) : page?.sessionStorage.removeItem(PENDING_KEY);

  /** Has no `await` before the code is sent, so that a second call can't send it too. */
  async function finish(pending: PendingSignIn | undefined, code: string | null, problem: string | null): Promise<SignedIn> {
    if (!pending) throw new CompanionError("state_mismatch", "This sign-in didn't start in this tab. Sign in again.");
    const others = readPending().filter(({ state }) => state !== pending.state);
    const returnTo = safePath(pending.returnTo);
    try {
      if (problem || !code) {
        throw problem === "access_denied"
          ? new CompanionError(problem, "You cancelled the sign-in.")
          : new CompanionError("idp_error", `The sign-in failed at the provider: ${problem || "no code"}.`);
      }
      setPending(others);
      const { token, user } = await call<NewSession>(fetch, `${url}/auth`, {
        method: "POST",
        headers: { "Idp-Code": code, "Idp-Code-Verifier": pending.verifier },
        again: isSignInAgain,
        patience: CODE_LIFE,
      });
      sessions.set({ token, user });
      return { user, returnTo };
    } catch (error) {
      // The user can go back and choose again.
      setPending([...others, pending]);
      throw Object.assign(error as CompanionError, { returnTo });
    }
  }

  return {
    ...reads,

    async signIn({ returnTo, signal } = {}) {
      if (!page) throw new CompanionError("unsupported", "signIn() only works in a browser.");
      const { pathname, search, hash } = page.location;
      const state = STATE_PREFIX + random();
      const pending: PendingSignIn = { state, url, verifier: random(), returnTo: safePath(returnTo ?? pathname + search + hash) };
      const options = await call<SignInOptions>(fetch, `${url}/auth`, { signal });
      // The user would come back to another site, which can't finish this sign-in.
      if (new URL(options.redirect_uri).origin !== page.location.origin) {
        throw new CompanionError("redirect_uri_unknown", `${page.location.origin} isn't in the service's idp.redirect_uri.`);
      }
      const to = await authorizePage(options, state, pending.verifier);
      try {
        setPending([...readPending(), pending]);
      } catch (cause) {
        throw new CompanionError("unsupported", "This browser blocks storage for this page, so you can't sign in.", { cause });
      }
      handled = undefined;
      page.location.assign(to);
    },

    async handleCallback(location = page?.location ?? { href: "about:blank" }) {
      const { href } = location;
      if (handled?.addresses.includes(href)) return handled.result;
      const address = new URL(href);
      const { searchParams } = address;
      const [code, state, error] = ["code", "state", "error"].map((name) => searchParams.get(name)) as [string | null, string | null, string | null];
      const pending = readPending().find((each) => each.state === state);
      // The page can have its own `code`, and another client on this page its own sign-in.
      if (!state?.startsWith(STATE_PREFIX) || (pending && pending.url !== url) || (code ?? error) === null) return null;
      for (const name of ["code", "state", "error", "error_description", "error_uri"]) searchParams.delete(name);
      // Keeps the code out of the history and `Referer`, and a reload from sending it again.
      if (page?.location.href === href) page.history.replaceState(page.history.state, "", address.href);
      const result = finish(pending, code, error);
      // A router may still pass the original URL.
      handled = { addresses: [href, address.href], result };
      return result;
    },

    session: () => sessions.get(),
    onSession: (listener) => sessions.on(listener),

    async signOut() {
      const session = sessions.get();
      if (!session) return;
      endings.add(session.token);
      sessions.end(session.token, "signed_out");
      await endAtService(session.token);
    },

    async signOutEverywhere() {
      const session = sessions.get();
      if (!session) return;
      try {
        await authorized("/sessions", { method: "DELETE" }, session);
      } catch (error) {
        if (!isOver(error)) throw error;
      }
      sessions.end(session.token, "signed_out");
      tell({ ended: session.user.id });
    },

    live(listener, { signal } = {}) {
      if (signal?.aborted) return () => undefined;
      const stop = live.add(listener, true);
      signal?.addEventListener("abort", stop, { once: true });
      return stop;
    },

    watch<T>(
      topic: Topic,
      read: (options: ReadOptions) => Promise<T>,
      listener: (reading: Reading<T>) => void,
      { signal, jitter = 2000 }: { signal?: AbortSignal | undefined; jitter?: number | undefined } = {},
    ): Watch {
      if (signal?.aborted) return { stop: () => undefined, reload: () => undefined };
      let data: T | undefined;
      let running: AbortController | undefined;
      let again = false;
      let stopped = false;
      const isMine = isPrivate(topic);

      const load = async (late: boolean, fresh = false) => {
        running?.abort();
        const { signal: own } = (running = new AbortController());
        do {
          let error: CompanionError | undefined;
          try {
            if (late) await sleep(Math.random() * jitter, own);
            again = false;
            const now = await read({ signal: own, cache: "no-cache", fresh });
            if (!own.aborted) data = now;
          } catch (cause) {
            error = cause instanceof CompanionError ? cause : new CompanionError("bad_answer", String(cause), { cause });
          }
          // A newer read has replaced this one, or it was stopped.
          if (own.aborted) return;
          if (!again) running = undefined;
          listener({ data, error, loading: false, updatedAt: updatedAt(data) });
          late = true;
          fresh = false;
        } while (again && !own.aborted);
      };
      const start = () => {
        running?.abort();
        running = undefined;
        if (!isMine || sessions.get()) void load(false);
      };

      const forget = isMine
        ? sessions.on((session) => {
            data = undefined;
            listener({ data, error: undefined, loading: !!session, updatedAt: undefined });
            start();
          })
        : undefined;
      const unlive = live.add((topics) => {
        if (!topics.includes(topic) || (isMine && !sessions.get())) return;
        // A read in progress may have missed the change, so read once more.
        if (running) again = true;
        else void load(true);
      }, false);
      const stop = () => {
        stopped = true;
        forget?.();
        unlive();
        running?.abort();
      };
      signal?.addEventListener("abort", stop, { once: true });
      start();
      return {
        stop,
        reload({ fresh = false } = {}) {
          if (!stopped) void load(false, fresh);
        },
      };
    },

    close() {
      closed = true;
      live.close();
      channel?.close();
      clearTimeout(timer);
      for (const [name, heard] of Object.entries(events)) page?.removeEventListener(name, heard);
    },
  };
}

// The client of a page: sign-in, session, reads and live changes.
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
  /** The service's address. */
  url: string;
  /** Where to keep the session: `"local"` (all tabs, the default), `"session"` (one tab, survives a reload), `"memory"` (until a reload), or your own storage. */
  storage?: "local" | "session" | "memory" | SessionStorage | undefined;
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined;
  /** `shareTabs` of `@bot-companion/web/tabs`: tabs then share one live stream. */
  tabs?: ((page: Window & typeof globalThis) => Share) | undefined;
}

export interface SignedIn {
  user: User;
  /** Where the user was, or what was passed to `signIn`: always a path on this origin. */
  returnTo: string;
}

/** The result of `watch`. After a failed read, `data` is from the previous one. */
export interface Reading<T> {
  readonly data: T | undefined;
  readonly error: CompanionError | undefined;
  readonly loading: boolean;
  /** When the service got `data`, as milliseconds since 1970: for guilds, from the provider. Known if `read` returns what one of the
   * client's reads returned. */
  readonly updatedAt: number | undefined;
}

export interface Watch {
  /** Reads now. */
  reload(options?: { fresh?: boolean }): void;
  stop(): void;
}

export interface Companion extends Reads {
  /** Leaves for the provider's page; what stands behind an `await` may still run. The user comes back to `returnTo` (here, if not
   * given) by way of `handleCallback`. */
  signIn(options?: { returnTo?: string | undefined; signal?: AbortSignal | undefined }): Promise<void>;
  /** On the redirect address's page: completes the sign-in. `null`, and the address stays as it is, unless it has a `state` of this
   * client. May be called twice. */
  handleCallback(location?: { href: string }): Promise<SignedIn | null>;
  /** The signed-in user. The same object until that changes. */
  session(): Session | null;
  /** Listens for changes from any tab. Returns a function that removes the listener. */
  onSession(listener: SessionListener): () => void;
  /** Ends this session: here at once, at the service as soon as it answers. If it can't be reached, this throws, and the client tries
   * again when the browser is online, and on the next page. */
  signOut(): Promise<void>;
  /** Ends all sessions of the user. If it fails, nothing has changed here. */
  signOutEverywhere(): Promise<void>;
  /** Calls back with the topics to reload, starting with all of them. Returns a function that removes the listener. */
  live(listener: LiveListener, options?: { signal?: AbortSignal | undefined }): () => void;
  /** Reads now, whenever the topic changes (after a random part of `jitter`, 2,000 ms, and past the browser's cache), and when
   * someone signs in or out. */
  watch<T>(
    topic: Topic,
    read: (options: ReadOptions) => Promise<T>,
    listener: (reading: Reading<T>) => void,
    options?: { signal?: AbortSignal | undefined; jitter?: number | undefined },
  ): Watch;
  /** Releases everything, as if the page were closed. The session stays. */
  close(): void;
}

interface Begun {
  state: string;
  url: string;
  verifier: string;
  returnTo: string;
}

/** Tells this client's `state` from those of other sign-ins on the same site. */
const MARK = "bc_";
const BEGUN = "bot-companion:sign-in";
/** Sign-ins that one tab remembers, and sign-outs that wait for the service. */
const MOST = 5;
/** Milliseconds. */
const SIGN_OUT_AGAIN = 30_000;

const isOver = (error: unknown): boolean => (error as CompanionError).code === "token_invalid";

export function createCompanion(options: CompanionOptions): Companion {
  const url = options.url.replace(/\/+$/, "");
  const fetch: Fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, { credentials: "omit", ...init }));
  const key = `bot-companion:${url}`;
  // On a server there is no page, so nothing is stored and nobody is signed in.
  const page = typeof window === "undefined" ? undefined : window;

  const { storage = "local" } = options;
  let store: SessionStorage | undefined;
  try {
    if (typeof storage === "object") store = storage;
    else if (storage === "local") store = page?.localStorage;
    else if (storage === "session") store = page?.sessionStorage;
  } catch {
    // Forbidden by the browser, so keep it in memory.
  }

  const kept = reliable(store);
  const channel = page && "BroadcastChannel" in page ? new page.BroadcastChannel(key) : undefined;
  let closed = false;
  const tell = (message: Message) => {
    // A closed channel throws; what is still under way may end a session.
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

  /** The tokens whose sessions the user has ended here, but not yet the service. */
  const ending = `${key}:ending`;
  const endings = (): string[] => kept.getItem(ending)?.split(" ") ?? [];
  const setEndings = (tokens: string[]) => (tokens.length ? kept.setItem(ending, tokens.slice(-MOST).join(" ")) : kept.removeItem(ending));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const endAtService = async (token: string) => {
    try {
      await call(fetch, `${url}/auth`, { method: "DELETE", keepalive: true, headers: { Token: token } });
    } catch (error) {
      if (!isOver(error)) {
        clearTimeout(timer);
        if (!closed) timer = setTimeout(endAll, SIGN_OUT_AGAIN);
        throw error;
      }
    }
    setEndings(endings().filter((each) => each !== token));
  };
  const endAll = () => {
    for (const token of endings()) endAtService(token).catch(() => undefined);
  };
  endAll();

  // A page from the back/forward cache has missed all changes.
  const events = { storage: look, pageshow: look, online: endAll };
  for (const [name, heard] of Object.entries(events)) page?.addEventListener(name, heard);

  async function authorized<T>(path: string, request: Call, { token } = sessions.get() ?? { token: "" }): Promise<T> {
    if (!token) throw new CompanionError("token_missing", "Nobody is signed in.");
    try {
      return await call<T>(fetch, url + path, { ...request, headers: { ...request.headers, Token: token } });
    } catch (error) {
      if (isOver(error)) sessions.end(token, "ended");
      throw error;
    }
  }
  const reads = makeReads((path, request, token) => (token ? authorized(path, request) : call(fetch, url + path, request)));

  /** The callback that this page has handled, until it is left or the session ends: a second effect gets the same. */
  let handled: { addresses: string[]; result: Promise<SignedIn> } | undefined;
  sessions.on((session) => {
    if (!session) handled = undefined;
  });

  /** The sign-ins that this tab has begun. */
  const readBegun = (): Begun[] => {
    try {
      return JSON.parse(page?.sessionStorage.getItem(BEGUN) ?? "[]") as Begun[];
    } catch {
      // Without the storage nothing was begun here.
      return [];
    }
  };
  const setBegun = (all: Begun[]) =>
    all.length ? page?.sessionStorage.setItem(BEGUN, JSON.stringify(all.slice(-MOST))) : page?.sessionStorage.removeItem(BEGUN);

  /** Runs without a wait until the code is sent: no second call can come first. */
  async function finish(begun: Begun | undefined, code: string | null, problem: string | null): Promise<SignedIn> {
    if (!begun) throw new CompanionError("state_mismatch", "This sign-in was not begun here. Sign in again.");
    const others = readBegun().filter(({ state }) => state !== begun.state);
    const returnTo = safePath(begun.returnTo);
    try {
      if (problem || !code) {
        throw problem === "access_denied"
          ? new CompanionError(problem, "You did not allow the sign-in.")
          : new CompanionError("idp_error", `The sign-in failed at the provider: ${problem}.`);
      }
      setBegun(others);
      const { token, user } = await call<NewSession>(fetch, `${url}/auth`, {
        method: "POST",
        headers: { "Idp-Code": code, "Idp-Code-Verifier": begun.verifier },
        again: isSignInAgain,
        patience: CODE_LIFE,
      });
      sessions.set({ token, user });
      return { user, returnTo };
    } catch (error) {
      // The user may go back and choose again.
      setBegun([...others, begun]);
      throw Object.assign(error as CompanionError, { returnTo });
    }
  }

  return {
    ...reads,

    async signIn({ returnTo, signal } = {}) {
      if (!page) throw new CompanionError("unsupported", "Only a page can sign in.");
      const { pathname, search, hash } = page.location;
      const state = MARK + random();
      const begun: Begun = { state, url, verifier: random(), returnTo: safePath(returnTo ?? pathname + search + hash) };
      const settings = await call<SignInOptions>(fetch, `${url}/auth`, { signal });
      // The user would come back to a page that knows nothing of this sign-in.
      if (new URL(settings.redirect_uri).origin !== page.location.origin) {
        throw new CompanionError("redirect_uri_unknown", `The service has no redirect address for ${page.location.origin}.`);
      }
      const to = await authorizePage(settings, state, begun.verifier);
      try {
        setBegun([...readBegun(), begun]);
      } catch (cause) {
        throw new CompanionError("unsupported", "The browser keeps nothing for this page, so nobody can sign in.", { cause });
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
      const begun = readBegun().find((each) => each.state === state);
      // Another `code` is the page's own; another client's sign-in is for that one.
      if (!state?.startsWith(MARK) || (begun && begun.url !== url) || (code ?? error) === null) return null;
      for (const name of ["code", "state", "error", "error_description", "error_uri"]) searchParams.delete(name);
      // Not in the history, not in a `Referer`, and not sent again by a reload.
      if (page?.location.href === href) page.history.replaceState(page.history.state, "", address.href);
      const result = finish(begun, code, error);
      // A router may still have the address as it was.
      handled = { addresses: [href, address.href], result };
      return result;
    },

    session: () => sessions.get(),
    onSession: (listener) => sessions.on(listener),

    async signOut() {
      const session = sessions.get();
      if (!session) return;
      setEndings([...endings(), session.token]);
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
          // Another read goes on, or none.
          if (own.aborted) return;
          if (!again) running = undefined;
          listener({ data, error, loading: false, updatedAt: updatedAt(data) });
          late = true;
          fresh = false;
        } while (again && !own.aborted);
      };
      const begin = () => {
        running?.abort();
        running = undefined;
        if (!isMine || sessions.get()) void load(false);
      };

      const forget = isMine
        ? sessions.on((session) => {
            data = undefined;
            listener({ data, error: undefined, loading: !!session, updatedAt: undefined });
            begin();
          })
        : undefined;
      const unlive = live.add((topics) => {
        if (!topics.includes(topic) || (isMine && !sessions.get())) return;
        // A read that is under way may have come too early; one that waits has not.
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
      begin();
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

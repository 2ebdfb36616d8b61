// The browser client: sign-in, session, reads and live updates.
import { CODE_LIFE, type Call, type Fetch, WAKES, call, isPassing, isSignInAgain, rest } from "./call.js";
import { CompanionError } from "./errors.js";
import { type LiveListener, makeLive } from "./live.js";
import { safePath } from "./path.js";
import { authorizePage, random, webUrl } from "./pkce.js";
import { type ReadOptions, type Reads, makeReads } from "./reads.js";
import { type Session, type SessionListener, type SessionStorage, makeSessions } from "./session.js";
import { shareTabs } from "./tabs.js";
import type { NewSession, SignInOptions, Topic, User } from "./types.js";
import { type Reading, type Watch, type WatchOptions, watch } from "./watch.js";

export { CompanionError, type ErrorCode, type LocalErrorCode } from "./errors.js";
export type { LiveListener } from "./live.js";
export type { ReadOptions, Reads } from "./reads.js";
export type { Session, SessionEnd, SessionListener, SessionStorage } from "./session.js";
export type * from "./types.js";
export type { Reading, Watch, WatchOptions } from "./watch.js";

export interface CompanionOptions {
  /** The service's URL. */
  url: string;
  /** Where to keep the session: `"local"` (all tabs, the default), `"session"` (one tab, survives a reload), `"memory"` (until a reload), or your own. */
  storage?: "local" | "session" | "memory" | SessionStorage | undefined;
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined;
  /** By default, all tabs share one live stream, because browsers open few connections to a host. With `false`, each has its own. */
  tabs?: boolean | undefined;
}

export interface SignedIn {
  user: User;
  /** The page to go back to: the `returnTo` of `signIn`, or where the user was. Always a path on this origin. */
  returnTo: string;
}

export interface Companion extends Reads {
  /** Goes to the provider's page. Code after an `await` may still run. After `handleCallback`, the user returns to `returnTo`, by
   * default the current page. */
  signIn(options?: { returnTo?: string | undefined }): Promise<void>;
  /** Completes the sign-in on the page at the redirect URL. If the URL has no `state` from this client, returns `null` and leaves the
   * URL alone. Safe to call twice. */
  handleCallback(location?: { href: string }): Promise<SignedIn | null>;
  /** The signed-in user and their token. Returns the same object until the session changes. */
  session(): Session | null;
  /** Calls the listener when someone signs in or out, in any tab. Returns a function that removes the listener. */
  onSession(listener: SessionListener): () => void;
  /** Signs out here at once, then ends the session at the service. If the service can't be reached, the client retries as long as this
   * page is open. */
  signOut(): Promise<void>;
  /** Ends all of the user's sessions. If this throws, the user is still signed in here. */
  signOutEverywhere(): Promise<void>;
  /** Calls the listener with the topics that have changed, first with all of them. Returns a function that removes the listener. */
  live(listener: LiveListener): () => void;
  /** Reads now, whenever the topic changes, and when someone signs in or out; after a failure again until it works, and at once when the
   * page is seen again or its network is back. Bypasses the browser's cache. */
  watch<T>(
    topic: Topic,
    read: (options: ReadOptions) => Promise<T>,
    listener: (reading: Reading<T>) => void,
    options?: WatchOptions,
  ): Watch;
  /** Closes streams and removes listeners. The user stays signed in. */
  close(): void;
}

/** A sign-in that this tab has started. */
interface PendingSignIn {
  url: string;
  verifier: string;
  returnTo: string;
}

/** Marks this client's `state`, because the site may have other kinds of sign-in. Also the key under which it is stored. */
const STATE_PREFIX = "bc_";
/** What the provider adds to the redirect URL. */
const PARAMETERS = ["code", "state", "error", "error_description", "error_uri"];
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
    store = typeof storage === "object" ? storage : page?.[`${storage}Storage` as "localStorage"];
  } catch {
    // The browser blocks it, so keep the session in memory.
  }

  const closing = new AbortController();
  /** Listens to other tabs. Importing a module that creates a client has no effect: this is called with the first use. */
  const begin = () => {
    const sessions = makeSessions(key, store);
    const live = makeLive(fetch, url, sessions, page, page && options.tabs !== false ? shareTabs(page) : undefined, storage === "local" && !!store);
    // The storage's own event comes when it has changed here, too; a message could come before. The others are for a storage without that
    // event, and for a page that comes back from the browser's cache.
    for (const name of ["storage", ...WAKES]) page?.addEventListener(name, sessions.look, { signal: closing.signal });
    sessions.on((session) => {
      if (!session) handled = undefined;
    });
    closing.signal.addEventListener("abort", live.close);
    return { sessions, live, page, closing: closing.signal };
  };
  let begun: ReturnType<typeof begin> | undefined;
  const own = () => (begun ??= begin());

  /** Ends a session that has ended here. Its token is never stored: the next person at this computer could use it. */
  async function endAtService(token: string, failures = 0): Promise<void> {
    try {
      await call(fetch, `${url}/auth`, { method: "DELETE", keepalive: true, headers: { Token: token } });
    } catch (error) {
      const { retryAfter } = error as CompanionError;
      if (!isPassing(error as CompanionError)) return;
      rest(SIGN_OUT_RETRY, failures, retryAfter, closing.signal, page).then(
        () => endAtService(token, failures + 1),
        () => undefined,
      );
    }
  }

  async function authorized<T>(path: string, request: Call, { token } = own().sessions.get() ?? { token: "" }): Promise<T> {
    if (!token) throw new CompanionError("token_missing", "No one is signed in.");
    try {
      return await call<T>(fetch, url + path, { ...request, headers: { ...request.headers, Token: token } });
    } catch (error) {
      if (isOver(error)) own().sessions.end(token, "ended");
      throw error;
    }
  }
  const reads = makeReads((path, request, token) => (token ? authorized(path, request) : call(fetch, url + path, request)));

  /** The result of this page's callback, for React's second effect. Kept until the session ends or the next sign-in starts. */
  let handled: { addresses: string[]; result: Promise<SignedIn> } | undefined;

  /** Has no `await` before the code is sent, so that a second call can't send it too. */
  async function finish(state: string, pending: PendingSignIn | undefined, code: string | null, problem: string | null): Promise<SignedIn> {
    if (!pending) throw new CompanionError("state_mismatch", "This sign-in didn't start in this tab. Sign in again.");
    const returnTo = safePath(pending.returnTo);
    try {
      if (problem || !code) {
        throw problem === "access_denied"
          ? new CompanionError(problem, "You cancelled the sign-in.")
          : new CompanionError("idp_error", `The sign-in failed at the provider: ${problem || "no code"}.`);
      }
      const { token, user } = await call<NewSession>(fetch, `${url}/auth`, {
        method: "POST",
        headers: { "Idp-Code": code, "Idp-Code-Verifier": pending.verifier },
        again: isSignInAgain,
        patience: CODE_LIFE,
      });
      // After a failure, the user can go back and choose again.
      page?.sessionStorage.removeItem(state);
      const { sessions } = own();
      const before = sessions.get();
      sessions.set({ token, user });
      if (before) void endAtService(before.token);
      return { user, returnTo };
    } catch (error) {
      throw Object.assign(error as CompanionError, { returnTo });
    }
  }

  return {
    ...reads,

    async signIn({ returnTo } = {}) {
      if (!page) throw new CompanionError("unsupported", "signIn() only works in a browser.");
      const { pathname, search, hash } = page.location;
      const state = STATE_PREFIX + random();
      const pending: PendingSignIn = { url, verifier: random(), returnTo: safePath(returnTo ?? pathname + search + hash) };
      const options = await call<SignInOptions>(fetch, `${url}/auth`);
      // The user would come back to another site, which can't finish this sign-in.
      if (webUrl(options.redirect_uri).origin !== page.location.origin) {
        throw new CompanionError("redirect_uri_unknown", `${page.location.origin} isn't in the service's idp.redirect_uri.`);
      }
      const to = await authorizePage(options, state, pending.verifier);
      try {
        page.sessionStorage.setItem(state, JSON.stringify(pending));
      } catch (cause) {
        throw new CompanionError("unsupported", "This browser blocks storage, so you can't sign in.", { cause });
      }
      handled = undefined;
      page.location.assign(to);
    },

    async handleCallback(location = page?.location ?? { href: "about:blank" }) {
      const { href } = location;
      if (handled?.addresses.includes(href)) return handled.result;
      const address = new URL(href);
      const { searchParams } = address;
      const [code = null, state, error = null] = PARAMETERS.map((name) => searchParams.get(name));
      // The page can have its own `code`.
      if (!state?.startsWith(STATE_PREFIX) || (code ?? error) === null) return null;
      let pending: PendingSignIn | undefined;
      try {
        pending = JSON.parse(page?.sessionStorage.getItem(state) as string) as PendingSignIn;
      } catch {
        // Storage is blocked or damaged, so there's no sign-in to finish.
      }
      // Another client on this page has its own sign-ins.
      if (pending && pending.url !== url) return null;
      for (const name of PARAMETERS) searchParams.delete(name);
      // Keeps the code out of the history and `Referer`, and a reload from sending it again.
      if (page?.location.href === href) page.history.replaceState(page.history.state, "", address.href);
      const result = finish(state, pending, code, error);
      // A router may still pass the original URL.
      handled = { addresses: [href, address.href], result };
      return result;
    },

    session: () => own().sessions.get(),
    onSession: (listener) => own().sessions.on(listener),

    async signOut() {
      const { sessions } = own();
      const session = sessions.get();
      if (!session) return;
      sessions.end(session.token, "signed_out");
      await endAtService(session.token);
    },

    async signOutEverywhere() {
      const { sessions } = own();
      const session = sessions.get();
      if (!session) return;
      try {
        await authorized("/sessions", { method: "DELETE" }, session);
      } catch (error) {
        if (!isOver(error)) throw error;
      }
      sessions.end(session.token, "signed_out");
    },

    live: (listener) => own().live.add(listener, true),

    watch: (topic, read, listener, options = {}) => watch(own(), topic, read, listener, options),

    close: () => closing.abort(),
  };
}

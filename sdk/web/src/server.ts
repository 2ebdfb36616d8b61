// For server-rendered dashboards: keeps the token in a cookie that scripts can't read. Only uses the web-standard `Request` and
// `Response`, so it runs on Node, Bun, Deno and Workers.
import { CODE_LIFE, type Fetch, TIME_LIMIT, call, follow, isSignInAgain, send } from "./call.js";
import { CompanionError } from "./errors.js";
import { safePath } from "./path.js";
import { authorizePage, random } from "./pkce.js";
import { type Reads, makeReads } from "./reads.js";
import type { Me, NewSession, SignInOptions } from "./types.js";

export { CompanionError, type ErrorCode, type LocalErrorCode } from "./errors.js";
export { safePath } from "./path.js";
export type { ReadOptions, Reads } from "./reads.js";
export type * from "./types.js";

export interface CookieOptions {
  /** Default: `__Host-companion`, or `companion` if the cookie isn't `Secure` or has another path. With the prefix, browsers don't let
   * other subdomains set the cookie. */
  name?: string | undefined;
  /** Default: true, unless the redirect URL is `http://localhost` or a loopback address. */
  secure?: boolean | undefined;
  /** Default: `/` */
  path?: string | undefined;
  /** In seconds. Default: 30 days, the longest a session can last. The service ends unused sessions earlier. */
  maxAge?: number | undefined;
}

export interface ServerOptions {
  /** The service's URL, as this server reaches it. */
  url: string;
  /** This dashboard's redirect URL. It must be one of the service's `idp.redirect_uri`. Unsafe requests must come from its origin. */
  redirectUri: string;
  cookie?: CookieOptions | undefined;
  /** Where to redirect when a sign-in fails: a path on this site (default: `/`). The error's code is added, as in
   * `?sign_in_error=access_denied`. With `false`, `signIn` and `callback` throw a `CompanionError` instead. */
  failureRedirect?: string | false | undefined;
  /** The visitor's IP address, or a list as in `X-Forwarded-For`. Every call sends it in that header, so that the service's limits count
   * each visitor instead of this server. The service only trusts it if this server is in its `http.trusted_proxies`. Never return
   * something that visitors can write themselves. */
  clientAddress?: ((request: RequestLike) => string | null | undefined) | undefined;
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined;
}

/** The parts of a request that reads need. In server components, pass `{ headers: await headers() }`, which counts as a GET. */
export interface RequestLike {
  headers: { get(name: string): string | null };
  method?: string | undefined;
}

/** Whether someone is signed in. `unknown`: the service didn't say, so show neither their name nor "Sign in". */
export type ServerSession =
  | { readonly state: "in"; readonly me: Me }
  | { readonly state: "out" }
  | { readonly state: "unknown"; readonly error: CompanionError };

export interface ServerCompanion {
  /** Returns a 302 to the provider's page. The user comes back to `returnTo` (default: the request's query parameter of that name), or
   * to `/` if that isn't a path on this site or has more than 512 characters. */
  signIn(request: Request, options?: { returnTo?: string | undefined }): Promise<Response>;
  /** For the redirect URL. Returns a 302 to `returnTo` with the session cookie, or a 303 to `failureRedirect` if the sign-in failed. */
  callback(request: Request): Promise<Response>;
  /** Ends the session, or all of the user's sessions, and removes the cookie. Returns a 303 to `returnTo` (default: `/`). Only accepts
   * POST requests from this site. */
  signOut(request: Request, options?: { everywhere?: boolean | undefined; returnTo?: string | undefined }): Promise<Response>;
  /** Asks the service who is signed in. */
  session(request: RequestLike): Promise<ServerSession>;
  /** Calls on behalf of the request's user. Throws `cross_site` for unsafe requests from other sites. */
  api(request: RequestLike): Reads;
  /** Passes on the service's live stream, for an `EventSource` on the page: the user's own, or the public one if no one is signed in.
   * If the service refuses or can't be reached, the response has an error status. */
  live(request: RequestLike & { signal?: AbortSignal | undefined }): Promise<Response>;
  /** Throws `cross_site` for unsafe requests (anything but GET, HEAD and OPTIONS) from other sites. */
  protect(request: RequestLike): void;
  /** The token from the cookie. Never send it to the page. */
  token(request: RequestLike): string | null;
}

/** How long the user has to decide at the provider, in seconds. */
const SIGN_IN_LIFE = 600;
/** How many sign-ins one browser can have in progress. Each has a cookie. */
const MAX_SIGN_INS = 5;
/** In characters. Every request carries all cookies, and servers refuse more than about 8 KB of them. */
const MAX_RETURN_TO = 512;

/** Where to go after the sign-in: `/` if the path is too long, before or after normalising it. */
function returnPath(path: unknown): string {
  const safe = String(path).length > MAX_RETURN_TO ? "/" : safePath(path);
  return safe.length > MAX_RETURN_TO ? "/" : safe;
}

// Base64url, because percent-encoding could triple the length of a hostile link.
const pack = (path: string): string => btoa(path).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
const unpack = (text: string): string => atob(text.replace(/-/g, "+").replace(/_/g, "/"));

const cookiesOf = (request: RequestLike): Map<string, string> =>
  new Map(
    (request.headers.get("Cookie") ?? "").split(";").map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );

export function createServerCompanion(options: ServerOptions): ServerCompanion {
  const url = options.url.replace(/\/+$/, "");
  const { redirectUri } = options;
  const { origin, protocol, hostname } = new URL(redirectUri);
  const plain: Fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  // Some frameworks cache `fetch` unless told not to, and some Workers don't support the option and throw.
  let uncached: RequestInit = { cache: "no-store" };
  try {
    new Request(url, uncached);
  } catch {
    uncached = {};
  }
  /** `fetch` on behalf of the request's visitor. */
  const fetchFor = (request: RequestLike): Fetch => {
    const address = options.clientAddress?.(request);
    const forwarded = address ? { "X-Forwarded-For": address } : {};
    return (input, { cache: _, headers, ...init } = {}) => plain(input, { ...init, ...uncached, headers: { ...(headers as object), ...forwarded } });
  };

  const isLocal = protocol === "http:" && /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  const { secure = !isLocal, path = "/", maxAge = 30 * 24 * 3600 } = options.cookie ?? {};
  const name = options.cookie?.name ?? (secure && path === "/" ? "__Host-companion" : "companion");
  // Each sign-in has its own cookie, so that two tabs don't interfere. The name starts like the session's, to be protected like it.
  const pendingName = (state: string): string => `${name}-${state}`;

  const cookie = (key: string, value: string, age: number): string =>
    `${key}=${value}; Path=${path}; Max-Age=${age}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;

  const redirect = (status: number, to: string, cookies: string[]): Response => {
    const headers = new Headers({ Location: to, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer" });
    for (const each of cookies) headers.append("Set-Cookie", each);
    return new Response(null, { status, headers });
  };

  const { failureRedirect = "/" } = options;
  /** Redirects if the sign-in fails. Its cookie stays, because the user can go back and choose again. */
  async function orFailure(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      if (failureRedirect === false || !(error instanceof CompanionError)) throw error;
      const to = new URL(safePath(failureRedirect), origin);
      to.searchParams.set("sign_in_error", error.code);
      return redirect(303, to.pathname + to.search + to.hash, []);
    }
  }

  function token(request: RequestLike): string | null {
    const value = cookiesOf(request).get(name) ?? "";
    return /^bcs_\w+$/.test(value) ? value : null;
  }

  function protect(request: RequestLike): void {
    if (/^(GET|HEAD|OPTIONS)$/.test(request.method ?? "GET")) return;
    const from = request.headers.get("Origin");
    const site = request.headers.get("Sec-Fetch-Site");
    // Browsers send at least one of these with unsafe requests. Without either, the request can't be trusted.
    if ((from ?? site) !== null && (from ?? origin) === origin && (site ?? "same-origin") === "same-origin") return;
    throw new CompanionError("cross_site", "This request didn't come from this site.", { status: 403 });
  }

  function reads(request: RequestLike): Reads {
    const fetch = fetchFor(request);
    const value = token(request);
    return makeReads(async (target, read, needed) => {
      if (!needed) return call(fetch, url + target, read);
      if (!value) throw new CompanionError("token_missing", "No one is signed in.", { status: 401 });
      return call(fetch, url + target, { ...read, headers: { ...read.headers, Token: value } });
    });
  }

  async function start(request: Request, returnTo: string): Promise<Response> {
    const options = await call<SignInOptions>(fetchFor(request), `${url}/auth`);
    const state = random();
    const verifier = random();
    const page = await authorizePage({ ...options, redirect_uri: redirectUri }, state, verifier);
    // So that an attacker can't fill the browser's cookies by starting many sign-ins.
    const others = [...cookiesOf(request).keys()].filter((key) => key.startsWith(pendingName(""))).slice(0, 1 - MAX_SIGN_INS);
    const value = `${verifier}.${pack(returnPath(returnTo))}`;
    return redirect(302, page, [...others.map((key) => cookie(key, "", 0)), cookie(pendingName(state), value, SIGN_IN_LIFE)]);
  }

  async function finish(request: Request): Promise<Response> {
    const parameters = new URL(request.url).searchParams;
    const state = parameters.get("state") ?? "";
    const value = /^[\w-]{43}$/.test(state) ? cookiesOf(request).get(pendingName(state)) : undefined;
    const [, verifier, returnTo] = /^([\w-]{43})\.(.*)$/.exec(value ?? "") ?? [];
    if (!verifier || returnTo === undefined) {
      throw new CompanionError("state_mismatch", "This sign-in didn't start in this browser. Sign in again.", { status: 400 });
    }
    const code = parameters.get("code");
    const error = parameters.get("error");
    if (error === "access_denied") throw new CompanionError(error, "You cancelled the sign-in.", { status: 403 });
    // Anyone can craft this URL, so only repeat plain words, and only send what fits into a header.
    if (error !== null || !/^[!-~]{1,512}$/.test(code ?? "")) {
      const why = /^\w{1,64}$/.test(error ?? "") ? `: ${error}` : "";
      throw new CompanionError("idp_error", `The sign-in failed at the provider${why}.`, { status: 400 });
    }
    const session = await call<NewSession>(fetchFor(request), `${url}/auth`, {
      method: "POST",
      headers: { "Idp-Code": code as string, "Idp-Code-Verifier": verifier, "Idp-Redirect-Uri": redirectUri },
      again: isSignInAgain,
      patience: CODE_LIFE,
    });
    // Nobody could end the session that the cookie had.
    const before = token(request);
    if (before && before !== session.token) {
      await call(fetchFor(request), `${url}/auth`, { method: "DELETE", headers: { Token: before } }).catch(() => undefined);
    }
    let to = "/";
    try {
      to = returnPath(unpack(returnTo));
    } catch {
      // Someone has changed the cookie.
    }
    return redirect(302, to, [cookie(pendingName(state), "", 0), cookie(name, session.token, maxAge)]);
  }

  return {
    signIn: (request, { returnTo = new URL(request.url).searchParams.get("returnTo") ?? "/" } = {}) => orFailure(() => start(request, returnTo)),
    callback: (request) => orFailure(() => finish(request)),

    async signOut(request, { everywhere = false, returnTo = "/" } = {}) {
      if (request.method !== "POST") throw new CompanionError("method_not_allowed", "Sign out with a POST request.", { status: 405 });
      protect(request);
      const value = token(request);
      if (value) {
        try {
          await call(fetchFor(request), url + (everywhere ? "/sessions" : "/auth"), { method: "DELETE", headers: { Token: value } });
        } catch (error) {
          // Without the cookie, this session's token is gone anyway. But the user must know if other sessions are still open.
          if (everywhere && (error as CompanionError).code !== "token_invalid") throw error;
        }
      }
      return redirect(303, returnPath(returnTo), [cookie(name, "", 0)]);
    },

    async session(request) {
      if (!token(request)) return { state: "out" };
      try {
        return { state: "in", me: await reads(request).me() };
      } catch (error) {
        if (!(error instanceof CompanionError)) throw error;
        return error.code === "token_invalid" ? { state: "out" } : { state: "unknown", error };
      }
    },

    api(request) {
      protect(request);
      return reads(request);
    },

    async live(request) {
      const fetch = fetchFor(request);
      const value = token(request);
      const open = async (path: string, headers: Record<string, string>) => {
        const own = follow(request.signal);
        const timer = setTimeout(() => own.abort(new CompanionError("network", "No response in time.")), TIME_LIMIT);
        return send(fetch, url + path, { headers, signal: own.signal }).finally(() => clearTimeout(timer));
      };
      let stream: Response | undefined;
      try {
        if (value) stream = await open("/me/live", { Token: value });
        if (!stream || stream.status === 401) {
          await stream?.body?.cancel();
          stream = await open("/live", {});
        }
      } catch (error) {
        if (!(error instanceof CompanionError)) throw error;
        return new Response(null, { status: 502, headers: { "Cache-Control": "no-store" } });
      }
      const type = stream.headers.get("Content-Type") ?? "text/plain";
      return new Response(stream.body, { status: stream.status, headers: { "Content-Type": type, "Cache-Control": "no-store" } });
    },

    protect,
    token,
  };
}

// For server-rendered dashboards: the token stays in a cookie that no script can read. It only uses the web-standard `Request` and `Response`, so it runs on Node, Bun, Deno and Workers.
import { CODE_LIFE, type Fetch, call, isSignInAgain } from "./call.js";
import { CompanionError } from "./errors.js";
import { safePath } from "./path.js";
import { authorizePage, random } from "./pkce.js";
import { type Reads, makeReads } from "./reads.js";
import type { Me, NewSession, SignInOptions } from "./types.js";

export { updatedAt } from "./call.js";
export { CompanionError, type ErrorCode, type LocalErrorCode } from "./errors.js";
export { safePath } from "./path.js";
export type { ReadOptions, Reads } from "./reads.js";
export type * from "./types.js";

export interface CookieOptions {
  /** `__Host-companion`, or `companion` if the cookie is not `Secure` or has another path: browsers let no other site of the domain
   * set a cookie with that prefix. */
  name?: string | undefined;
  /** True unless the redirect address is `http://localhost` (or a loopback address). */
  secure?: boolean | undefined;
  /** `/` */
  path?: string | undefined;
  /** Seconds; 30 days, as long as a session can last. The service ends it earlier if it is not used. */
  maxAge?: number | undefined;
}

export interface ServerOptions {
  /** The service's address, as this server reaches it. */
  url: string;
  /** This dashboard's own redirect address, one of the service's `idp.redirect_uri`. Its origin is the one that unsafe requests must
   * come from. */
  redirectUri: string;
  cookie?: CookieOptions | undefined;
  /** Where a sign-in that fails leads: a path of this site, by default `/`, with the error's code as `?sign_in_error=access_denied`.
   * `false`: `signIn` and `callback` throw a `CompanionError` instead. */
  failureRedirect?: string | false | undefined;
  /** Replaces the global `fetch`. */
  fetch?: Fetch | undefined;
}

/** What the reads need of a request. Server components have only its headers: `{ headers: await headers() }` counts as a GET. */
export interface RequestLike {
  headers: { get(name: string): string | null };
  method?: string | undefined;
}

export interface ServerCompanion {
  /** 302 to the provider's page. The user comes back to `returnTo`, by default the request's parameter of that name; to `/` if that is
   * not a path of this site or has more than 512 characters. */
  signIn(request: Request, options?: { returnTo?: string | undefined }): Promise<Response>;
  /** At the redirect address: 302 to `returnTo` with the session's cookie; 303 to `failureRedirect` if nobody is signed in now. */
  callback(request: Request): Promise<Response>;
  /** For a POST of this site only: ends the session, or all of the user's, removes the cookie, 303 to `returnTo` or `/`. */
  signOut(request: Request, options?: { everywhere?: boolean | undefined; returnTo?: string | undefined }): Promise<Response>;
  /** Who is signed in, as the service knows them; `null` for nobody. */
  session(request: RequestLike): Promise<Me | null>;
  /** The calls on behalf of the request's user. Throws `cross_site` for an unsafe request that is not this site's own. */
  api(request: RequestLike): Reads;
  /** Throws `cross_site` for an unsafe request (not GET, HEAD or OPTIONS) that is not this site's own. */
  protect(request: RequestLike): void;
  /** The cookie's token. Never send it to the page. */
  token(request: RequestLike): string | null;
}

/** Seconds for the user to decide at the provider. */
const SIGN_IN_LIFE = 600;
/** Sign-ins that one browser may have under way; each has a cookie. */
const SIGN_INS = 5;
/** Characters of `returnTo`. All cookies go with every request, and servers refuse requests with more than about 8 KB of them. */
const LONGEST_RETURN = 512;

/** Where to go after the sign-in; `/` for a path that is too long, as it was sent or in its normal form. */
function returnPath(path: unknown): string {
  const safe = String(path).length > LONGEST_RETURN ? "/" : safePath(path);
  return safe.length > LONGEST_RETURN ? "/" : safe;
}

// Base64url: percent-encoding would triple what a hostile link is made of.
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
  // Frameworks keep what `fetch` reads, unless they are told not to; some Workers do not know the setting and throw.
  let uncached: RequestInit = { cache: "no-store" };
  try {
    new Request(url, uncached);
  } catch {
    uncached = {};
  }
  const fetch: Fetch = (input, { cache: _, ...init } = {}) => plain(input, { ...init, ...uncached });

  const isLocal = protocol === "http:" && /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  const { secure = !isLocal, path = "/", maxAge = 30 * 24 * 3600 } = options.cookie ?? {};
  const name = options.cookie?.name ?? (secure && path === "/" ? "__Host-companion" : "companion");
  // Beside the session's cookie, so that both have its protection. One per sign-in: two tabs do not disturb each other.
  const begun = (state: string): string => `${name}-${state}`;

  const cookie = (key: string, value: string, age: number): string =>
    `${key}=${value}; Path=${path}; Max-Age=${age}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;

  const redirect = (status: number, to: string, cookies: string[]): Response => {
    const headers = new Headers({ Location: to, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer" });
    for (const each of cookies) headers.append("Set-Cookie", each);
    return new Response(null, { status, headers });
  };

  const { failureRedirect = "/" } = options;
  /** What a failure of a sign-in is answered with. The user may go back and choose again, so its cookie stays. */
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
    // Browsers send at least one of these with an unsafe request; without either, it isn't known to be from this site.
    if ((from ?? site) !== null && (from ?? origin) === origin && (site ?? "same-origin") === "same-origin") return;
    throw new CompanionError("cross_site", "This request does not come from this site.", { status: 403 });
  }

  function reads(value: string | null): Reads {
    return makeReads(async (target, request, needed) => {
      if (!needed) return call(fetch, url + target, request);
      if (!value) throw new CompanionError("token_missing", "Nobody is signed in.", { status: 401 });
      return call(fetch, url + target, { ...request, headers: { ...request.headers, Token: value } });
    });
  }

  async function begin(request: Request, returnTo: string): Promise<Response> {
    const settings = await call<SignInOptions>(fetch, `${url}/auth`);
    const state = random();
    const verifier = random();
    const page = await authorizePage({ ...settings, redirect_uri: redirectUri }, state, verifier);
    // An attacker who makes a browser start many sign-ins must not fill its cookies.
    const others = [...cookiesOf(request).keys()].filter((key) => key.startsWith(begun(""))).slice(0, 1 - SIGN_INS);
    const value = `${verifier}.${pack(returnPath(returnTo))}`;
    return redirect(302, page, [...others.map((key) => cookie(key, "", 0)), cookie(begun(state), value, SIGN_IN_LIFE)]);
  }

  async function finish(request: Request): Promise<Response> {
    const parameters = new URL(request.url).searchParams;
    const state = parameters.get("state") ?? "";
    const value = /^[\w-]{43}$/.test(state) ? cookiesOf(request).get(begun(state)) : undefined;
    const [, verifier, returnTo] = /^([\w-]{43})\.(.*)$/.exec(value ?? "") ?? [];
    if (!verifier || returnTo === undefined) {
      throw new CompanionError("state_mismatch", "This sign-in was not begun in this browser. Sign in again.", { status: 400 });
    }
    const code = parameters.get("code");
    const error = parameters.get("error");
    if (error === "access_denied") throw new CompanionError(error, "You did not allow the sign-in.", { status: 403 });
    // Anyone can write an address: only a word is repeated, and only what fits the header is sent.
    if (error !== null || !/^[!-~]{1,512}$/.test(code ?? "")) {
      const why = /^\w{1,64}$/.test(error ?? "") ? `: ${error}` : "";
      throw new CompanionError("idp_error", `The sign-in failed at the provider${why}.`, { status: 400 });
    }
    const session = await call<NewSession>(fetch, `${url}/auth`, {
      method: "POST",
      headers: { "Idp-Code": code as string, "Idp-Code-Verifier": verifier, "Idp-Redirect-Uri": redirectUri },
      again: isSignInAgain,
      patience: CODE_LIFE,
    });
    let to = "/";
    try {
      to = returnPath(unpack(returnTo));
    } catch {
      // The cookie was changed.
    }
    return redirect(302, to, [cookie(begun(state), "", 0), cookie(name, session.token, maxAge)]);
  }

  return {
    signIn: (request, { returnTo = new URL(request.url).searchParams.get("returnTo") ?? "/" } = {}) => orFailure(() => begin(request, returnTo)),
    callback: (request) => orFailure(() => finish(request)),

    async signOut(request, { everywhere = false, returnTo = "/" } = {}) {
      if (request.method !== "POST") throw new CompanionError("method_not_allowed", "Sign out by POST.", { status: 405 });
      protect(request);
      const value = token(request);
      if (value) {
        try {
          await call(fetch, url + (everywhere ? "/sessions" : "/auth"), { method: "DELETE", headers: { Token: value } });
        } catch (error) {
          // Without its cookie nobody has the token any more. But other sessions go on, and the user must know.
          if (everywhere && (error as CompanionError).code !== "token_invalid") throw error;
        }
      }
      return redirect(303, returnPath(returnTo), [cookie(name, "", 0)]);
    },

    async session(request) {
      const value = token(request);
      if (!value) return null;
      try {
        return await reads(value).me();
      } catch (error) {
        if (error instanceof CompanionError && error.code === "token_invalid") return null;
        throw error;
      }
    },

    api(request) {
      protect(request);
      return reads(token(request));
    },

    protect,
    token,
  };
}

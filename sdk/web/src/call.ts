// One call to the service: unwraps the envelope, turns failures into typed errors, and honours `Retry-After` where a retry is safe.
import { CompanionError, type ErrorCode, type ErrorDetails } from "./errors.js";

export interface Call {
  method?: string;
  headers?: Record<string, string>;
  cache?: RequestCache | undefined;
  signal?: AbortSignal | undefined;
  keepalive?: boolean;
  /** Whether to retry after this failure. */
  again?: (error: CompanionError) => boolean;
  /** The longest total wait between tries, in seconds. */
  patience?: number;
  /** Called with the time when the service got the data. */
  received?: ((time: number) => void) | undefined;
}

export type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

const TRIES = 3;
/** How long one try may take, in milliseconds. The service itself waits for the provider for less than this. */
export const TIME_LIMIT = 20_000;
/** The longest wait before something is tried again, in milliseconds. */
const LONGEST_WAIT = 60_000;
const isReadAgain = ({ status, retryAfter }: CompanionError): boolean => retryAfter !== undefined && (status === 429 || status >= 502);

/** What happens when a page may have missed something. */
export const WAKES = ["online", "pageshow", "visibilitychange"];

/** Waits, and no longer than until `page` is seen again or its network is back. If the signal aborts, rejects at once with its reason. */
export const sleep = (ms: number, signal?: AbortSignal | undefined, page?: Window | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const own = follow(signal);
    const timer = setTimeout(() => own.abort(), ms);
    const end = () => {
      clearTimeout(timer);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    if (own.signal.aborted) end();
    own.signal.addEventListener("abort", end);
    for (const name of WAKES) page?.addEventListener(name, () => page.document.hidden || own.abort(), { signal: own.signal });
  });

/** How long to wait after this many failures, in milliseconds. Random, so that not all visitors come back at the same moment. */
const backoff = (first: number, failures: number): number => Math.min(LONGEST_WAIT, first * 2 ** failures) * (0.5 + Math.random());

/** Waits before another try. After `Retry-After`, the page can't know better than the service when to come back. */
export const rest = (first: number, failures: number, retryAfter = 0, signal: AbortSignal, page: Window | undefined): Promise<void> =>
  sleep(retryAfter * 1000 + backoff(first, failures), signal, retryAfter ? undefined : page);

/** Other failures would repeat themselves. */
export const isPassing = ({ status, code }: CompanionError): boolean =>
  code === "network" || code === "bad_answer" || status === 408 || status === 429 || status >= 500;

/** A controller that aborts when the signal does. It can also be aborted earlier. */
export function follow(signal: AbortSignal | undefined): AbortController {
  const own = new AbortController();
  const abort = () => own.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort, { signal: own.signal });
  return own;
}

const badAnswer = (details: ErrorDetails): CompanionError =>
  new CompanionError("bad_answer", "This response isn't from bot-companion. Check the service's URL.", details);

/** Turns an error response into a typed error. */
export async function failure(response: Response): Promise<CompanionError> {
  const { status, headers } = response;
  const body = (await response.json().catch(() => null)) as { message?: string; data?: { error?: ErrorCode; request_id?: string } } | null;
  const wait = headers.get("Retry-After");
  const details = {
    status,
    requestId: body?.data?.request_id ?? headers.get("X-Request-Id") ?? undefined,
    // A day at most: timers can't wait for a month.
    retryAfter: wait && /^\d+$/.test(wait) ? Math.min(Number(wait), 86_400) : undefined,
  };
  return typeof body?.data?.error === "string"
    ? new CompanionError(body.data.error, String(body.message), details)
    : badAnswer(details);
}

/** `fetch` with typed errors. An abort still throws the signal's reason. */
export async function send(fetch: Fetch, url: string, init: RequestInit): Promise<Response> {
  try {
    // The service never redirects, and other hosts must not get the token.
    return await fetch(url, { redirect: "manual", ...init });
  } catch (cause) {
    init.signal?.throwIfAborted();
    throw new CompanionError("network", "Can't reach the service, or it doesn't allow this page's origin.", { cause });
  }
}

export async function call<T>(fetch: Fetch, url: string, { again = isReadAgain, patience = 10, signal, cache, received, ...rest }: Call = {}): Promise<T> {
  for (let tries = 1, waited = 0; ; tries++) {
    const own = follow(signal);
    const timer = setTimeout(() => own.abort(new CompanionError("network", "No response in time.")), TIME_LIMIT);
    let error: CompanionError;
    try {
      const response = await send(fetch, url, { ...rest, cache: cache as RequestCache, signal: own.signal });
      if (response.ok) {
        const body = (await response.json().catch(() => null)) as { code?: number; data?: unknown } | null;
        own.signal.throwIfAborted();
        if (body?.code === response.status && typeof body.data === "object" && body.data) {
          received?.(Date.now() - (Number(response.headers.get("Age")) || 0) * 1000);
          return body.data as T;
        }
        error = badAnswer({ status: response.status });
      } else {
        error = await failure(response);
        own.signal.throwIfAborted();
      }
    } finally {
      clearTimeout(timer);
      own.abort();
    }
    // Random, so that clients that were refused together don't all come back together.
    const wait = (error.retryAfter || 0.5) * (1 + Math.random() / 2);
    waited += wait;
    if (tries >= TRIES || waited > patience || !again(error)) throw error;
    await sleep(wait * 1000, signal);
  }
}

/** After these errors, the same code can be sent again. After any other, the provider may have used it up. */
export const isSignInAgain = ({ code, retryAfter }: CompanionError): boolean =>
  retryAfter !== undefined && (code === "idp_rate_limited" || code === "idp_unavailable");

/** How long to retry a sign-in, in seconds. A code is valid for about 100, and some of that has passed when it arrives. */
export const CODE_LIFE = 75;

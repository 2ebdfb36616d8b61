// One call to the service: unwraps the envelope, turns failures into typed errors, and honours `Retry-After` where that is safe.
import { CompanionError, type ErrorCode } from "./errors.js";

export interface Call {
  method?: string;
  headers?: Record<string, string>;
  cache?: RequestCache | undefined;
  signal?: AbortSignal | undefined;
  keepalive?: boolean;
  /** Whether to try again after this failure; the service said when. */
  again?: (error: CompanionError) => boolean;
  /** The time limit for all waits together, in seconds. */
  patience?: number;
}

export type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

const read = new WeakMap<object, number>();

/** When the service got this data, as milliseconds since 1970 on this machine's clock: for guilds, from the provider. `undefined` for
 * anything that was not returned by a read. */
export const updatedAt = (data: unknown): number | undefined => read.get(data as object);

const TRIES = 3;
const isReadAgain = ({ status, retryAfter }: CompanionError): boolean => retryAfter !== undefined && (status === 429 || status >= 502);

/** Waits; ends early, with the signal's reason, when the signal aborts. */
export const sleep = (ms: number, signal?: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });

/** The error in an answer that isn't OK. */
export async function failure(response: Response): Promise<CompanionError> {
  const { status, headers } = response;
  const body = (await response.json().catch(() => null)) as { message?: string; data?: { error?: ErrorCode; request_id?: string } } | null;
  const wait = headers.get("Retry-After");
  const details = {
    status,
    requestId: body?.data?.request_id ?? headers.get("X-Request-Id") ?? undefined,
    retryAfter: wait && /^\d+$/.test(wait) ? Number(wait) : undefined,
  };
  return typeof body?.data?.error === "string"
    ? new CompanionError(body.data.error, String(body.message), details)
    : new CompanionError("bad_answer", `The answer (${status}) is not the service's.`, details);
}

/** `fetch`, whose failure is typed unless it is the signal's. */
export async function send(fetch: Fetch, url: string, init: RequestInit): Promise<Response> {
  try {
    // The service never redirects, and other hosts must not get the token.
    return await fetch(url, { redirect: "manual", ...init });
  } catch (cause) {
    init.signal?.throwIfAborted();
    throw new CompanionError("network", "The service cannot be reached, or does not list this page's origin.", { cause });
  }
}

export async function call<T>(fetch: Fetch, url: string, { again = isReadAgain, patience = 10, signal, cache, ...rest }: Call = {}): Promise<T> {
  const init: RequestInit = { ...rest };
  if (signal) init.signal = signal;
  if (cache) init.cache = cache;
  for (let tries = 1, waited = 0; ; tries++) {
    const response = await send(fetch, url, init);
    let error: CompanionError;
    if (response.ok) {
      const body = (await response.json().catch(() => null)) as { code?: number; data?: unknown } | null;
      signal?.throwIfAborted();
      if (body?.code === response.status && typeof body.data === "object" && body.data) {
        read.set(body.data, Date.now() - (Number(response.headers.get("Age")) || 0) * 1000);
        return body.data as T;
      }
      error = new CompanionError("bad_answer", "The answer is not the service's.", { status: response.status });
    } else {
      error = await failure(response);
      signal?.throwIfAborted();
    }
    // Clients refused at the same time must not all come back at the same time.
    const wait = (error.retryAfter || 0.5) * (1 + Math.random() / 2);
    waited += wait;
    if (tries >= TRIES || waited > patience || !again(error)) throw error;
    await sleep(wait * 1000, signal);
  }
}

/** A code may be sent again after these, once the time is over; after any other failure the provider may have seen it. */
export const isSignInAgain = ({ code, retryAfter }: CompanionError): boolean =>
  retryAfter !== undefined && (code === "idp_rate_limited" || code === "idp_unavailable");

/** Seconds that a sign-in may be tried for: a code lives for about 100, and some are over when it comes. */
export const CODE_LIFE = 75;

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
}

export type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

const read = new WeakMap<object, number>();

/** When the service got this data (guilds come from the provider), in milliseconds since 1970 by this machine's clock. `undefined` for
 * anything that a read didn't return. */
export const updatedAt = (data: unknown): number | undefined => read.get(data as object);

const TRIES = 3;
const isReadAgain = ({ status, retryAfter }: CompanionError): boolean => retryAfter !== undefined && (status === 429 || status >= 502);

/** Waits. If the signal aborts, rejects at once with its reason. */
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

const badAnswer = (details: ErrorDetails): CompanionError =>
  new CompanionError("bad_answer", "The response isn't from bot-companion. Check the service's URL.", details);

/** Turns an error response into a typed error. */
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
      error = badAnswer({ status: response.status });
    } else {
      error = await failure(response);
      signal?.throwIfAborted();
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

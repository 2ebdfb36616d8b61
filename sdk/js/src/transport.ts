/** A request to the service. */
export interface FeedRequest {
  method: "PUT" | "POST";
  /** Begins with `/bot/`. */
  path: string;
  headers: Record<string, string>;
  /** Whole, or in pieces as they are made. */
  body: Uint8Array | AsyncIterable<Uint8Array>;
  signal: AbortSignal;
}

/** What the service answered. */
export interface FeedResponse {
  status: number;
  /** The header `Retry-After`, as it stands. */
  retryAfter: string | null;
  /** The envelope's `data`; null when the answer was not one. */
  data: unknown;
}

/** Carries requests; a rejection means that nobody answered. */
export type Transport = (request: FeedRequest) => Promise<FeedResponse>;

/** An answer of the service is far smaller. */
const ANSWER_BYTES = 256 * 1024;

/** Carries requests by the built-in fetch. */
export function fetchTransport(url: string, key: string): Transport {
  const base = url.replace(/\/+$/, "");
  return async ({ method, path, headers, body, signal }) => {
    const init = {
      method,
      headers: { ...headers, authorization: `Bearer ${key}` },
      body: body instanceof Uint8Array ? body : streamOf(body),
      duplex: "half",
      // The key must not follow a redirect.
      redirect: "manual",
      signal,
    } as const;
    const response = await fetch(base + path, init as RequestInit);
    return { status: response.status, retryAfter: response.headers.get("retry-after"), data: await dataOf(response) };
  };
}

function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

async function dataOf(response: Response): Promise<unknown> {
  if (!response.body) return null;
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    size += piece.byteLength;
    if (size > ANSWER_BYTES) return null;
    pieces.push(piece);
  }
  try {
    const envelope: unknown = JSON.parse(Buffer.concat(pieces).toString("utf8"));
    return (envelope as { data?: unknown } | null)?.data ?? null;
  } catch {
    return null;
  }
}

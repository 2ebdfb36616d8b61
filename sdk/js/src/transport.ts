import { once } from "node:events";
import { promisify } from "node:util";
import { createGzip, gzip } from "node:zlib";
import type { Clock } from "./clock.js";

/** A request to the service. */
export interface FeedRequest {
  method: "PUT" | "POST";
  /** Starts with `/bot/`. */
  path: string;
  headers: Record<string, string>;
  /** The body's lines without line breaks: all of them, or a few at a time as they are built. */
  lines: readonly string[] | AsyncIterable<readonly string[]>;
  signal: AbortSignal;
}

/** What the service answered. */
export interface FeedResponse {
  status: number;
  /** The `Retry-After` header as sent. */
  retryAfter: string | null;
  /** The envelope's `data`; null if the response has no envelope. */
  data: Record<string, unknown> | null;
}

/** Sends requests; a rejection means that there was no response. */
export type Transport = (request: FeedRequest) => Promise<FeedResponse>;

/** The service's responses are far smaller. */
const ANSWER_BYTES = 256 * 1024;
/** Below this, compression saves nothing. */
const WORTH_COMPRESSING = 4 * 1024;
/** How much a stream gathers before compressing it. */
const PIECE = 16 * 1024;

const compress = promisify(gzip);

/** Sends requests with the built-in fetch. A stream sends what it has at least every `flushInterval`. */
export function fetchTransport(url: string, key: string, clock: Clock, flushInterval: number): Transport {
  const base = url.replace(/\/+$/, "");
  return async ({ method, path, headers, lines, signal }) => {
    const { body, encoding } = await encode(lines, clock, flushInterval);
    const init = {
      method,
      headers: { ...headers, ...encoding, authorization: `Bearer ${key}` },
      body,
      duplex: "half",
      // The key must not follow a redirect.
      redirect: "manual",
      signal,
    } as const;
    const response = await fetch(base + path, init as RequestInit);
    return { status: response.status, retryAfter: response.headers.get("retry-after"), data: await dataOf(response) };
  };
}

interface Encoded {
  body: Uint8Array | ReadableStream<Uint8Array>;
  encoding: { "content-encoding"?: string };
}

async function encode(lines: FeedRequest["lines"], clock: Clock, flushInterval: number): Promise<Encoded> {
  const zipped = { "content-encoding": "gzip" };
  if (!isWhole(lines)) return { body: streamOf(compressed(lines, clock, flushInterval)), encoding: zipped };
  const text = Buffer.from(textOf(lines));
  if (text.length < WORTH_COMPRESSING) return { body: text, encoding: {} };
  return { body: await compress(text), encoding: zipped };
}

function isWhole(lines: FeedRequest["lines"]): lines is readonly string[] {
  return Array.isArray(lines);
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => line + "\n").join("");
}

/** The lines as gzip. */
async function* compressed(lines: AsyncIterable<readonly string[]>, clock: Clock, flushInterval: number): AsyncGenerator<Uint8Array> {
  const zip = createGzip();
  const fill = async (): Promise<void> => {
    for await (const { text, isFlush } of pieces(lines, clock, flushInterval)) {
      if (text && !zip.write(text)) await once(zip, "drain");
      if (isFlush) zip.flush();
    }
    zip.end();
  };
  fill().catch((error: unknown) => zip.destroy(error instanceof Error ? error : new Error(String(error))));
  try {
    for await (const part of zip) yield part as Uint8Array;
  } finally {
    zip.destroy();
  }
}

/**
 * Joins lines into chunks that are worth compressing. Slow callbacks must not look like a dead connection, so whatever
 * is there goes out every now and then.
 */
async function* pieces(lines: AsyncIterable<readonly string[]>, clock: Clock, flushInterval: number) {
  const iterator = lines[Symbol.asyncIterator]();
  let cancel = (): void => {};
  const timer = (): Promise<null> => new Promise((resolve) => (cancel = clock.after(flushInterval, () => resolve(null))));
  let text = "";
  try {
    let due = timer();
    let next = iterator.next();
    for (;;) {
      const some = await Promise.race([next, due]);
      const isFlush = some === null;
      if (isFlush) due = timer();
      else if (some.done) break;
      else {
        text += textOf(some.value);
        next = iterator.next();
      }
      if (!isFlush && text.length < PIECE) continue;
      yield { text, isFlush };
      text = "";
    }
    yield { text, isFlush: false };
  } finally {
    cancel();
  }
}

function streamOf(parts: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = parts[Symbol.asyncIterator]();
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

async function dataOf(response: Response): Promise<Record<string, unknown> | null> {
  if (!response.body) return null;
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    size += part.byteLength;
    if (size > ANSWER_BYTES) return null;
    parts.push(part);
  }
  try {
    const envelope = JSON.parse(Buffer.concat(parts).toString("utf8")) as { code?: unknown; data?: unknown } | null;
    const data = envelope?.code === response.status ? envelope.data : null;
    return typeof data === "object" ? (data as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

import type { Clock } from "./clock.js";
import type { Limits } from "./limits.js";
import { type Status, reasonOf } from "./status.js";
import type { FeedRequest, FeedResponse, Transport } from "./transport.js";

/** A usable response, or a failure with the service's Retry-After (in milliseconds), if it sent one. */
export type Answer = { failed: false; status: number; data: Record<string, unknown> } | { failed: true; retryAfter: number | null };

/** Data and heartbeats fail separately, but count as one outage. */
type Channel = "data" | "heartbeat";

export interface Call {
  channel: Channel;
  method: "PUT" | "POST";
  path: string;
  headers: Record<string, string>;
  lines: readonly string[] | AsyncGenerator<readonly string[]>;
  /** Which statuses other than 200 the caller handles; all others are failures. */
  understands?(status: number, data: Record<string, unknown>): boolean;
}

/** Requests to the service: how long one may take, what a response means, and when an outage begins and ends. */
export class Calls {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #status: Status;
  readonly #limits: Limits;
  readonly #onBack: () => void;
  readonly #underWay = new Set<AbortController>();
  /** Channels that failed and haven't had a response since. */
  readonly #down = new Set<Channel>();
  #downSince = 0;
  /** Whether the outage's first 401 has been logged. */
  #isKeySaid = false;
  #aborted = false;

  constructor(transport: Transport, clock: Clock, status: Status, limits: Limits, onBack: () => void) {
    this.#transport = transport;
    this.#clock = clock;
    this.#status = status;
    this.#limits = limits;
    this.#onBack = onBack;
  }

  get isDown(): boolean {
    return this.#down.size > 0;
  }

  async call(call: Call): Promise<Answer> {
    this.#status.counters.requests += 1;
    let response: FeedResponse;
    try {
      response = await this.#send(call);
    } catch (error) {
      return this.#failed(call.channel, reasonOf(error), null);
    }
    const { status, data } = response;
    if (status === 200 && data === null) {
      return this.#failed(call.channel, "another server responded, check COMPANION_URL", null);
    }
    // A proxy's 413 has no envelope.
    const known = data ?? {};
    if (status === 200 || call.understands?.(status, known)) {
      this.#succeeded(call.channel);
      this.#noteIgnored(known);
      return { failed: false, status, data: known };
    }
    const asked = retryAfter(response.retryAfter, this.#clock.now(), this.#limits.longestRetryAfter);
    // Being told to wait isn't an outage.
    if (status === 429) return { failed: true, retryAfter: asked };
    return this.#failed(call.channel, meaning(status, data), asked, status);
  }

  /** Cancels requests in progress; from now on, every call fails immediately, without a log line. */
  abort(): void {
    this.#aborted = true;
    for (const controller of this.#underWay) controller.abort(new Error("closed"));
  }

  async #send({ method, path, headers, lines }: Call): Promise<FeedResponse> {
    const controller = new AbortController();
    this.#underWay.add(controller);
    const { stallTimeout } = this.#limits;
    let cancel = (): void => {};
    const moved = (): void => {
      cancel();
      cancel = this.#clock.after(stallTimeout, () => controller.abort(new Error(`no progress for ${stallTimeout / 1_000} s`)));
    };
    moved();
    const aborted = new Promise<never>((_, reject) => {
      controller.signal.addEventListener("abort", () => reject(controller.signal.reason as Error), { once: true });
    });
    if (this.#aborted) controller.abort(new Error("closed"));
    const isStream = !Array.isArray(lines);
    const request: FeedRequest = {
      method, path, headers, signal: controller.signal, lines: isStream ? watched(lines as AsyncGenerator<readonly string[]>, moved) : lines,
    };
    try {
      return await Promise.race([aborted, this.#transport(request)]);
    } finally {
      cancel();
      this.#underWay.delete(controller);
      aborted.catch(() => {});
      controller.abort();
      // If nobody reads the snapshot any more, there's no need to call its callbacks.
      if (isStream) (lines as AsyncGenerator<readonly string[]>).return(undefined).catch(() => {});
    }
  }

  #failed(channel: Channel, reason: string, asked: number | null, status = 0): Answer {
    if (this.#aborted) return { failed: true, retryAfter: null };
    this.#status.counters.failures += 1;
    const isFirst = this.#down.size === 0;
    this.#down.add(channel);
    if (isFirst) {
      this.#downSince = this.#clock.now();
      this.#isKeySaid = false;
    }
    if (status === 401 && !this.#isKeySaid) {
      this.#isKeySaid = true;
      this.#status.error(`the service refuses the bot key, check COMPANION_BOT_KEY; retrying: ${reason}`);
    } else if (isFirst) this.#status.warn(`the service cannot be reached; retrying, the bot is not affected: ${reason}`);
    else this.#status.debug(`the service still cannot be reached: ${reason}`);
    return { failed: true, retryAfter: asked };
  }

  #succeeded(channel: Channel): void {
    if (!this.#down.delete(channel) || this.#down.size > 0) return;
    const seconds = Math.round((this.#clock.now() - this.#downSince) / 1_000);
    this.#status.info(`the service is back after ${seconds} s`);
    this.#onBack();
  }

  #noteIgnored(data: Record<string, unknown>): void {
    this.#status.counters.linesIgnored += Number(data["ignored"]) || 0;
    const { reasons } = data;
    if (!Array.isArray(reasons)) return;
    for (const reason of reasons.slice(0, 20).map(String)) {
      // The same reason may start with a different count each time.
      this.#status.warnOnce(`ignores ${reason.replace(/^\d+/, "")}`, `the service ignores: ${reason}`);
    }
  }
}

/** The lines that a 422 refuses, counted from 0 and in order, and why. Only lines that were sent count. */
export function refusedLines(status: number, data: Record<string, unknown>, sent: number): Map<number, string> {
  const refused = new Map<number, string>();
  if (status !== 422) return refused;
  const named: unknown[] = Array.isArray(data["lines"]) ? data["lines"] : [];
  // An older service only names the first one.
  for (const entry of [data, ...named]) {
    const { line, reason } = (entry ?? {}) as { line?: unknown; reason?: unknown };
    if (Number.isInteger(line) && (line as number) >= 1 && (line as number) <= sent) refused.set((line as number) - 1, String(reason));
  }
  return new Map([...refused].sort(([one], [other]) => one - other));
}

/** For the log. */
export function meaning(status: number, data: Record<string, unknown> | null): string {
  if (status === 413) return "status 413, the service, or a proxy in front of it, refuses a body of this size";
  const code = data && typeof data["error"] === "string" ? ` ${data["error"]}` : "";
  const hint = status === 404 || (status >= 300 && status < 400) ? ", check COMPANION_URL" : "";
  return `status ${status}${code}${hint}`;
}

async function* watched(lines: AsyncIterable<readonly string[]>, moved: () => void): AsyncGenerator<readonly string[]> {
  for await (const some of lines) {
    moved();
    yield some;
  }
  moved();
}

/** Milliseconds, from seconds or a date. */
export function retryAfter(header: string | null, now: number, longest: number): number | null {
  if (header === null || header.trim() === "") return null;
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - now : seconds * 1_000;
  return Number.isNaN(ms) ? null : Math.min(longest, Math.max(0, ms));
}

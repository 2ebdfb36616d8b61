import { withTextId } from "./ids.js";
import type { Limits } from "./limits.js";
import type { Spool } from "./spool.js";
import { type Status, reasonOf } from "./status.js";

/** The outcome of a feedback entry. */
export interface Delivery {
  delivered: boolean;
  /** Why it was not delivered. */
  reason: string | null;
}

/** A waiting feedback line. */
export interface FeedbackLine {
  text: string;
  /** Its name in the log. */
  about: string;
  settle(delivery: Delivery): void;
  /** Its number in the spool. */
  spooled: number | null;
}

/** Waiting feedback, in the order of the calls, and its outcome. */
export class Feedback {
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #spool: Spool | null;
  #queue: FeedbackLine[] = [];
  /** All lines without a result: those in the queue, and those being sent. */
  readonly #open = new Set<FeedbackLine>();
  #closed = false;

  constructor(limits: Limits, status: Status, spool: Spool | null) {
    this.#limits = limits;
    this.#status = status;
    this.#spool = spool;
    for (const { number, text, about } of spool?.entries() ?? []) this.#push({ text, about, settle: () => {}, spooled: number });
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** `value` is the line without its type. The result never rejects. */
  add(type: "feedback" | "feedback_gone", value: object): Promise<Delivery> {
    if (this.#closed) return refusal("closed");
    const entry = withTextId(value, "id") as { id?: unknown; submitter?: unknown };
    const { id, submitter } = entry;
    if (typeof id !== "string" || id === "") return this.#drop("the entry has no id, which must be text or a BigInt");
    let text: string;
    try {
      text = JSON.stringify({ type, ...entry, ...(submitter ? { submitter: withTextId(submitter, "id") } : {}) });
    } catch (error) {
      return this.#drop(`the entry is not JSON: ${reasonOf(error)}`);
    }
    const about = `${type} ${id.slice(0, 64)}`;
    if (Buffer.byteLength(text) >= this.#limits.lineBytes) {
      this.#status.warn(`feedback is too long and is not sent: ${about}, more than ${this.#limits.lineBytes} bytes`);
      return this.#drop("too long");
    }
    if (this.#queue.length >= this.#limits.feedback) {
      this.#status.warnOnce("feedback", `too much feedback is waiting: more than ${this.#limits.feedback} entries are refused until some are sent`);
      return this.#drop("too much feedback is waiting");
    }
    const spooled = this.#spool?.add(text) ?? null;
    return new Promise((settle) => this.#push({ text, about, settle, spooled }));
  }

  take(most: number): FeedbackLine[] {
    return this.#queue.splice(0, most);
  }

  /** These weren't applied: sends them again, before all others. */
  putBack(lines: FeedbackLine[]): void {
    this.#queue.unshift(...lines);
  }

  delivered(lines: FeedbackLine[]): void {
    for (const line of lines) {
      this.#status.counters.feedbackDelivered += 1;
      this.#end(line, { delivered: true, reason: null });
    }
    if (this.#queue.length === 0) this.#status.forget("feedback");
  }

  refused(line: FeedbackLine, reason: string): void {
    this.#status.counters.feedbackDropped += 1;
    this.#end(line, { delivered: false, reason });
  }

  /** Nothing more is sent, and every pending result says so. The spool keeps the entries. */
  close(): void {
    this.#closed = true;
    for (const line of this.#open) {
      const kept = line.spooled === null ? "closed before it was sent" : "closed before it was sent; it is in the spool and will be sent at the next start";
      if (line.spooled === null) this.#status.counters.feedbackDropped += 1;
      line.settle({ delivered: false, reason: kept });
    }
    this.#open.clear();
    this.#spool?.close();
  }

  #push(line: FeedbackLine): void {
    this.#queue.push(line);
    this.#open.add(line);
  }

  #end(line: FeedbackLine, delivery: Delivery): void {
    if (!this.#open.delete(line)) return;
    if (line.spooled !== null) this.#spool?.remove(line.spooled);
    line.settle(delivery);
  }

  #drop(reason: string): Promise<Delivery> {
    this.#status.counters.feedbackDropped += 1;
    return refusal(reason);
  }
}

function refusal(reason: string): Promise<Delivery> {
  return Promise.resolve({ delivered: false, reason });
}

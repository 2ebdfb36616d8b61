import { createHash } from "node:crypto";
import type { Callbacks } from "./callbacks.js";
import type { Clock } from "./clock.js";
import type { Limits } from "./limits.js";
import type { Status } from "./status.js";

export type ListName = "subscriptions" | "team";

/** A list as it was sent. */
export interface Listed {
  lines: string[];
  /** Compares lists without keeping them. */
  print: string;
  /** The same of the callback's whole answer, including refused entries. */
  answer: string;
  /** How often it was refused. */
  refusals: number;
}

/** The lists that the process with shard 0 sends as a whole: subscriptions and team. */
export class Lists {
  readonly #callbacks: Callbacks;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #retry: (list: ListName) => void;
  readonly #timers = new Map<string, () => void>();
  /** Subscriptions that the service refused: left out for as long as the callback returns them. */
  #refused = new Set<string>();
  /** What is left of a refused list, to be sent again. */
  #left: Listed | null = null;
  /** An answer that was refused too often: none of it is sent. */
  #hopeless = "";
  #refusedTeam = "";
  #sent = { subscriptions: "", team: "" };
  isStale = { subscriptions: false, team: false };

  constructor(callbacks: Callbacks, clock: Clock, limits: Limits, status: Status, retry: (list: ListName) => void) {
    this.#callbacks = callbacks;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#retry = retry;
  }

  /** Calls both callbacks; each list is sent if it differs from the last acknowledged one. */
  look(): void {
    this.isStale = { subscriptions: true, team: true };
  }

  /** Sends both, whatever was acknowledged. */
  forget(): void {
    this.#sent = { subscriptions: "", team: "" };
    this.look();
  }

  /** Whether subscriptions are waiting to be sent. */
  get hasSubscriptions(): boolean {
    return this.isStale.subscriptions || this.#left !== null;
  }

  /** Another process sends them. */
  drop(): void {
    this.isStale = { subscriptions: false, team: false };
    this.#left = null;
  }

  /** Null if there is nothing to send. */
  async subscriptions(): Promise<Listed | null> {
    const left = this.#left;
    this.#left = null;
    if (left && !this.isStale.subscriptions) return left;
    this.isStale.subscriptions = false;
    const entries = await this.#callbacks.subscriptions();
    if (entries === null) this.#again("subscriptions");
    if (entries === null || entries === "absent") return null;
    const answer = fingerprint(entries);
    if (answer === this.#hopeless) return null;
    this.#hopeless = "";
    this.#refused = new Set(entries.filter((line) => this.#refused.has(line)));
    const lines = entries.filter((line) => !this.#refused.has(line));
    const print = fingerprint(lines);
    return print === this.#sent.subscriptions ? null : { lines, print, answer, refusals: 0 };
  }

  /** One line; null if there is nothing to send. */
  async team(): Promise<Listed | null> {
    this.isStale.team = false;
    const members = await this.#callbacks.team();
    if (members === null) this.#again("team");
    if (members === null || members === "absent") return null;
    const lines = [`{"type":"team","members":[${members.join()}]}`];
    const print = fingerprint(lines);
    return print === this.#sent.team || print === this.#refusedTeam ? null : { lines, print, answer: print, refusals: 0 };
  }

  acknowledged(name: ListName, print: string): void {
    this.#sent[name] = print;
    if (name === "subscriptions") this.#status.forget("refused subscriptions");
  }

  /** No answer came: the service may have them or not. */
  lostSubscriptions(): void {
    this.#sent.subscriptions = "";
    this.isStale.subscriptions = true;
  }

  /** Leaves these subscriptions out from now on, and sends the rest again; if that has happened too often, nothing. */
  refuseSubscriptions(listed: Listed, refused: Map<number, string>): void {
    this.#status.counters.linesRefused += refused.size;
    for (const [line, reason] of refused) {
      this.#refused.add(listed.lines[line] as string);
      this.#status.warnOnce(`refused subscription ${reason}`, `the service refuses a subscription, which is left out: ${reason}`);
    }
    const most = this.#limits.subscriptionTries;
    const refusals = listed.refusals + 1;
    if (refusals < most) {
      const lines = listed.lines.filter((_, line) => !refused.has(line));
      this.#left = { lines, print: fingerprint(lines), answer: listed.answer, refusals };
      return;
    }
    this.#hopeless = listed.answer;
    this.#status.warnOnce("refused subscriptions", `subscriptions are still refused after ${most} tries: none are sent until the callback returns something else`);
  }

  /** The team is not sent again until it differs. */
  refuseTeam(print: string): void {
    this.#refusedTeam = print;
  }

  close(): void {
    for (const cancel of this.#timers.values()) cancel();
  }

  #again(name: ListName): void {
    this.#timers.get(name)?.();
    this.#timers.set(name, this.#clock.after(this.#limits.callbackRetry, () => this.#retry(name)));
  }
}

function fingerprint(lines: string[]): string {
  const hash = createHash("sha256");
  for (const line of lines) hash.update(line).update("\n");
  return hash.digest("base64");
}

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
  /** The callback's last answer, including refused entries. */
  #answer = "";
  /** An answer with too many refused entries: none of it is sent. */
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

  /** Another process sends them. */
  drop(): void {
    this.isStale = { subscriptions: false, team: false };
  }

  /** Null if there is nothing to send. */
  async subscriptions(): Promise<Listed | null> {
    this.isStale.subscriptions = false;
    const entries = await this.#callbacks.subscriptions();
    if (entries === null) this.#again("subscriptions");
    if (entries === null || entries === "absent") return null;
    this.#answer = fingerprint(entries);
    if (this.#answer === this.#hopeless) return null;
    this.#hopeless = "";
    this.#refused = new Set(entries.filter((line) => this.#refused.has(line)));
    const lines = entries.filter((line) => !this.#refused.has(line));
    const print = fingerprint(lines);
    return print === this.#sent.subscriptions ? null : { lines, print };
  }

  /** One line; null if there is nothing to send. */
  async team(): Promise<Listed | null> {
    this.isStale.team = false;
    const members = await this.#callbacks.team();
    if (members === null) this.#again("team");
    if (members === null || members === "absent") return null;
    const lines = [`{"type":"team","members":[${members.join()}]}`];
    const print = fingerprint(lines);
    return print === this.#sent.team || print === this.#refusedTeam ? null : { lines, print };
  }

  acknowledged(name: ListName, print: string): void {
    this.#sent[name] = print;
    if (name === "subscriptions") this.#status.forget("refused subscriptions");
  }

  /** Leaves the subscription out from now on; if there are too many of these, all of them. */
  refuseSubscription(line: string, reason: string): void {
    this.#status.counters.linesRefused += 1;
    const most = this.#limits.refusedSubscriptions;
    if (this.#refused.size < most) {
      this.#refused.add(line);
      this.#status.warnOnce(`refused subscription ${reason}`, `the service refuses a subscription, which is left out: ${reason}`);
      return;
    }
    this.#hopeless = this.#answer;
    this.#status.warnOnce("refused subscriptions", `more than ${most} subscriptions are refused: none are sent until the callback returns something else: ${reason}`);
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

import { createHash } from "node:crypto";
import type { Callbacks } from "./callbacks.js";
import type { Clock } from "./clock.js";
import type { Limits } from "./limits.js";

/** Refused subscriptions that are remembered. */
const MOST_REFUSED = 1_000;

/** A list as it was sent. */
export interface Listed {
  lines: string[];
  /** Compares lists without keeping them. */
  print: string;
}

/** The lists that are sent whole, by the process with shard 0: subscriptions and team. */
export class Lists {
  readonly #callbacks: Callbacks;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #wake: () => void;
  readonly #timers = new Map<string, () => void>();
  readonly #refused = new Set<string>();
  #refusedTeam = "";
  #sent = { subscriptions: "", team: "" };
  isStale = { subscriptions: false, team: false };

  constructor(callbacks: Callbacks, clock: Clock, limits: Limits, wake: () => void) {
    this.#callbacks = callbacks;
    this.#clock = clock;
    this.#limits = limits;
    this.#wake = wake;
  }

  /** Both are asked for; they are sent if they differ from what was last acknowledged. */
  look(): void {
    this.isStale = { subscriptions: true, team: true };
  }

  /** Both are sent, whatever was acknowledged. */
  forget(): void {
    this.#sent = { subscriptions: "", team: "" };
    this.look();
  }

  /** Null if there is nothing to send. */
  async subscriptions(): Promise<Listed | null> {
    this.isStale.subscriptions = false;
    const entries = await this.#callbacks.subscriptions();
    if (entries === null) this.#again("subscriptions");
    if (entries === null || entries === "absent") return null;
    const lines = entries.map((entry) => JSON.stringify(entry)).filter((line) => !this.#refused.has(line));
    const print = fingerprint(lines);
    return print === this.#sent.subscriptions ? null : { lines, print };
  }

  /** One line; null if there is nothing to send. */
  async team(): Promise<Listed | null> {
    this.isStale.team = false;
    const members = await this.#callbacks.team();
    if (members === null) this.#again("team");
    if (members === null || members === "absent") return null;
    const lines = [JSON.stringify({ type: "team", members })];
    const print = fingerprint(lines);
    return print === this.#sent.team || print === this.#refusedTeam ? null : { lines, print };
  }

  acknowledged(name: "subscriptions" | "team", print: string): void {
    this.#sent[name] = print;
  }

  /** The subscription is left out from now on. */
  refuseSubscription(line: string): void {
    if (this.#refused.size >= MOST_REFUSED) this.#refused.clear();
    this.#refused.add(line);
  }

  /** The team is not sent again until it differs. */
  refuseTeam(print: string): void {
    this.#refusedTeam = print;
  }

  close(): void {
    for (const cancel of this.#timers.values()) cancel();
  }

  #again(name: "subscriptions" | "team"): void {
    this.#timers.get(name)?.();
    const cancel = this.#clock.after(this.#limits.callbackRetry, () => {
      this.isStale[name] = true;
      this.#wake();
    });
    this.#timers.set(name, cancel);
  }
}

function fingerprint(lines: string[]): string {
  const hash = createHash("sha256");
  for (const line of lines) hash.update(line).update("\n");
  return hash.digest("base64");
}

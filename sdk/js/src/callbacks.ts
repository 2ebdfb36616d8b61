import { type Clock, within } from "./clock.js";
import { readMember, readSubscription, unite } from "./entries.js";
import { readGrants } from "./grants.js";
import type { Limits } from "./limits.js";
import { type Status, reasonOf } from "./status.js";
import type { Grants } from "./types.js";

/** The bot's own functions; a guild is passed by ID. */
export interface Handlers {
  grants?: ((guild: string) => unknown) | undefined;
  setup?: ((guild: string) => unknown) | undefined;
  linked?: ((guild: string) => unknown) | undefined;
  subscriptions?: (() => unknown) | undefined;
  team?: (() => unknown) | undefined;
}

/** What only the bot knows about a guild. */
export interface Facts {
  setup: boolean;
  linked: boolean;
  grants: Grants;
}

/** The longest list; an endless iterator stops here. */
const MOST_ENTRIES = { subscriptions: 1_000_000, team: 1_000 };
/** How many entries to take before yielding to the event loop. */
const SLICE = 256;

/** Calls the bot's functions within their time limit, and uses the last answer if one fails. */
export class Callbacks {
  readonly #handlers: Handlers;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #askAgain: (guild: string) => boolean;
  readonly #last = new Map<string, Partial<Facts>>();
  /** Guilds whose callbacks failed, and when to call them again, earliest first. */
  readonly #again = new Map<string, number>();
  #cancel: (() => void) | null = null;

  /** `askAgain` is called a while after a failure; it returns false if there is no room yet. */
  constructor(handlers: Handlers, clock: Clock, limits: Limits, status: Status, askAgain: (guild: string) => boolean) {
    this.#handlers = handlers;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#askAgain = askAgain;
  }

  /** Without it, nobody is staff. */
  get hasGrants(): boolean {
    return this.#handlers.grants !== undefined;
  }

  /** The last answers of all three; null if one has never answered. */
  last(guild: string): Facts | null {
    const last = this.#last.get(guild) ?? {};
    const facts = {
      setup: this.#handlers.setup ? last.setup : false,
      linked: this.#handlers.linked ? last.linked : false,
      grants: this.#handlers.grants ? last.grants : {},
    };
    return isComplete(facts) ? facts : null;
  }

  /** Calls all three at the same time. If one fails, its last answer counts; null if it has none. */
  async ask(guild: string): Promise<Facts | null> {
    const { grants, setup, linked } = this.#handlers;
    if (!grants && !setup && !linked) return this.last(guild);
    const read = (value: unknown): Grants => readGrants(value, guild, this.#status);
    const answers = await Promise.all([
      setup && this.#ask("setup", () => setup(guild), readFlag),
      linked && this.#ask("linked", () => linked(guild), readFlag),
      grants && this.#ask("grants", () => grants(guild), read),
    ]);
    const last: Partial<Facts> = { ...this.#last.get(guild) };
    for (const answer of answers) Object.assign(last, answer);
    this.#last.set(guild, last);
    if (answers.includes(null)) this.#later(guild);
    return this.last(guild);
  }

  forget(guild: string): void {
    this.#last.delete(guild);
    this.#again.delete(guild);
  }

  /** All subscriptions as JSON; "absent" if the bot doesn't send them, null if they aren't available right now. */
  async subscriptions(): Promise<string[] | "absent" | null> {
    const entries = await this.#list("subscriptions", readSubscription);
    if (entries === null || entries === "absent") return entries;
    return unite(entries, this.#clock.now() / 1_000).map((entry) => JSON.stringify(entry));
  }

  /** The whole team, as above. */
  team(): Promise<string[] | "absent" | null> {
    return this.#list("team", readMember);
  }

  close(): void {
    this.#cancel?.();
    this.#again.clear();
  }

  /** The answer as a part of the facts, or null. */
  async #ask<Name extends keyof Facts>(name: Name, call: () => unknown, read: (value: unknown) => Facts[Name]): Promise<Partial<Facts> | null> {
    try {
      const value = await within(this.#clock, this.#limits.callbackTimeout, called(call));
      return { [name]: read(value) };
    } catch (error) {
      this.#failed(name, error);
      return null;
    }
  }

  async #list<Entry>(name: "subscriptions" | "team", read: (entry: Record<string, unknown>) => Entry): Promise<Entry[] | "absent" | null> {
    const call = this.#handlers[name];
    if (!call) return "absent";
    const reading = new Reading(this.#clock, MOST_ENTRIES[name]);
    try {
      return await within(this.#clock, this.#limits.callbackTimeout, reading.all(call, read));
    } catch (error) {
      this.#failed(name, error);
      return null;
    } finally {
      reading.stop();
    }
  }

  #failed(name: string, error: unknown): void {
    this.#status.counters.callbackFailures += 1;
    this.#status.warnOnce(`callback ${name}`, `the callback ${name} failed; the service keeps what it has, and the callback will be called again: ${reasonOf(error)}`);
  }

  #later(guild: string): void {
    this.#again.delete(guild);
    this.#again.set(guild, this.#clock.now() + this.#limits.callbackRetry);
    this.#arm(this.#limits.callbackRetry);
  }

  #arm(ms: number): void {
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#cancel = null;
      const now = this.#clock.now();
      for (const [guild, at] of this.#again) {
        if (at > now) return this.#arm(at - now);
        if (!this.#askAgain(guild)) return this.#arm(this.#limits.firstRetry);
        this.#again.delete(guild);
      }
    });
  }
}

/** Takes the entries of a list one by one until told to stop. */
class Reading {
  readonly #clock: Clock;
  readonly #most: number;
  #stopped = false;
  #iterator: { return?(): unknown } | null = null;

  constructor(clock: Clock, most: number) {
    this.#clock = clock;
    this.#most = most;
  }

  async all<Entry>(call: () => unknown, read: (entry: Record<string, unknown>) => Entry): Promise<Entry[]> {
    const given = (await call()) as Partial<Iterable<unknown> & AsyncIterable<unknown>> | null | undefined;
    const iterator = given?.[Symbol.asyncIterator]?.() ?? given?.[Symbol.iterator]?.();
    if (!iterator || typeof given === "string") throw new TypeError("it must return a list or an iterator; an empty list if there is nobody");
    this.#iterator = iterator;
    const entries: Entry[] = [];
    while (!this.#stopped) {
      const { done, value } = await iterator.next();
      if (done) {
        this.#iterator = null;
        break;
      }
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("each entry must be an object");
      if (entries.length >= this.#most) throw new RangeError(`it has more than ${this.#most} entries`);
      entries.push(read(value as Record<string, unknown>));
      if (entries.length % SLICE === 0) await this.#clock.breathe();
    }
    return entries;
  }

  /** Closes an iterator that isn't exhausted. */
  stop(): void {
    this.#stopped = true;
    called(() => this.#iterator?.return?.()).catch(() => {});
  }
}

/** The function's result; if it throws, a rejection. */
async function called<T>(call: () => T): Promise<Awaited<T>> {
  return await call();
}

/** `undefined` isn't false, and the string "no" isn't true. */
function readFlag(value: unknown): boolean {
  if (typeof value !== "boolean") throw new TypeError("it must return true or false");
  return value;
}

function isComplete(facts: { [Name in keyof Facts]: Facts[Name] | undefined }): facts is Facts {
  return facts.setup !== undefined && facts.linked !== undefined && facts.grants !== undefined;
}

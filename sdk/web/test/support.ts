// Runs the real service with its sandbox, and fakes the parts of a browser that Node doesn't have: tabs with storage, locations and
// locks.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = process.env["BOT_COMPANION"];
/** Why tests with the real service are skipped, or false. */
export const needsService = BINARY ? false : "BOT_COMPANION is not set";
export const ORIGIN = "http://localhost:3000";

/** Waits until the condition is true. */
export async function until(what: string, is: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 120_000; !(await is()); ) {
    if (Date.now() > end) throw new Error(`timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Collects uncaught errors, which a browser would show on its console. */
export async function uncaught(work: () => Promise<void>): Promise<unknown> {
  // The test runner would blame the test for the error.
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const thrown: unknown[] = [];
  const hear = (error: unknown) => void thrown.push(error);
  process.on("uncaughtException", hear);
  try {
    await work();
    await until("something is thrown", () => thrown.length > 0);
  } finally {
    process.removeListener("uncaughtException", hear);
    for (const each of others) process.on("uncaughtException", each);
  }
  return thrown[0];
}

export class Service {
  url = "";
  sandbox = "";
  #process: ChildProcess | null = null;
  readonly #folder = mkdtempSync(join(tmpdir(), "web-"));

  async start(...more: string[]): Promise<this> {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const child = spawn(BINARY as string, ["dev", "--json", "--listen", listen, "--data", join(this.#folder, "data"), ...more]);
    this.#process = child;
    let output = "";
    let log = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
    child.stderr.setEncoding("utf8").on("data", (piece: string) => (log += piece));
    await until("the service listens", () => {
      if (child.exitCode !== null) throw new Error(`the service has stopped: ${log}`);
      return output.endsWith("\n");
    });
    const addresses = JSON.parse(output) as { service: string; sandbox: string };
    this.url = addresses.service;
    this.sandbox = addresses.sandbox;
    return this;
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Uses a sandbox switch: turns a failure on or off, or triggers an event. */
  async control(method: "PUT" | "DELETE" | "POST", name = ""): Promise<void> {
    const response = await fetch(`${this.sandbox}/control${name && `/${name}`}`, { method });
    if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`);
  }

  /** Where the provider redirects the browser after the user's choice: a person, or `"cancel"`. */
  async choose(page: string, choice: string): Promise<string> {
    const response = await fetch(page + (choice === "cancel" ? "&cancel=1" : `&choice=${choice}`), { redirect: "manual" });
    const to = response.headers.get("Location");
    if (!to) throw new Error(`the provider answers ${response.status}: ${await response.text()}`);
    return to;
  }

  /** Signs in outside of any page, and returns the token. */
  async token(person: string): Promise<string> {
    const response = await fetch(`${this.url}/auth`, { method: "POST", headers: { "Idp-Code": person } });
    return ((await response.json()) as { data: { token: string } }).data.token;
  }
}

/** Makes calls like a dashboard page, and records them. */
export class Network {
  readonly calls: { method: string; path: string; headers: Record<string, string>; init: RequestInit; status: number }[] = [];
  /** Called after each response, before the client gets it. */
  after: (path: string) => Promise<void> | void = () => undefined;

  readonly fetch = async (input: string, init: RequestInit = {}): Promise<Response> => {
    const path = new URL(input).pathname;
    const entry = { method: init.method ?? "GET", path, headers: { ...(init.headers as Record<string, string>) }, init, status: 0 };
    this.calls.push(entry);
    const response = await fetch(input, { ...init, headers: { ...init.headers, Origin: ORIGIN } });
    entry.status = response.status;
    await this.after(path);
    return response;
  };

  count(method: string, path: string): number {
    return this.calls.filter((call) => call.method === method && call.path === path).length;
  }
}

class StoredValues {
  readonly values = new Map<string, string>();
}

/** A browser: everything its tabs share. */
export class Browser {
  readonly tabs: Tab[] = [];
  readonly local = new StoredValues();
  readonly locks = new Locks();

  tab(href = `${ORIGIN}/`): Tab {
    const tab = new Tab(this, href);
    this.tabs.push(tab);
    return tab;
  }
}

export class Tab {
  readonly session = new StoredValues();
  readonly events = new EventTarget();
  assigned: string | null = null;
  readonly BroadcastChannel: typeof BroadcastChannel | undefined = BroadcastChannel;
  readonly document = { hidden: false };
  readonly navigator: { locks: Locks | undefined };
  readonly location: URL & { assign(to: string): void };
  readonly history = {
    state: { router: 1 } as unknown,
    replaceState: (state: unknown, _: string, to: string): void => {
      this.history.state = state;
      this.location.href = to;
    },
  };
  readonly localStorage: Storage;
  readonly sessionStorage: Storage;
  readonly addEventListener: EventTarget["addEventListener"];
  readonly removeEventListener: EventTarget["removeEventListener"];

  constructor(readonly browser: Browser, href: string) {
    this.navigator = { locks: browser.locks };
    this.location = Object.assign(new URL(href), { assign: (to: string) => void (this.assigned = to) });
    this.addEventListener = this.events.addEventListener.bind(this.events);
    this.removeEventListener = this.events.removeEventListener.bind(this.events);
    const others = () => {
      for (const tab of browser.tabs) if (tab !== this) setImmediate(() => tab.events.dispatchEvent(new Event("storage")));
    };
    this.localStorage = storage(browser.local, others);
    this.sessionStorage = storage(this.session, () => undefined);
  }

  /** Another tab is in front of this one, or no longer. */
  hide(hidden: boolean): void {
    this.document.hidden = hidden;
    this.events.dispatchEvent(new Event("visibilitychange"));
  }

  /** Makes this the current tab. A client belongs to the tab in which it was created. */
  enter(): this {
    (globalThis as { window?: unknown }).window = this;
    return this;
  }

  goto(href: string): this {
    this.location.href = href;
    return this.enter();
  }
}

export function leave(): void {
  delete (globalThis as { window?: unknown }).window;
}

function storage({ values }: StoredValues, changed: () => void): Storage {
  return {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => {
      values.set(key, value);
      changed();
    },
    removeItem: (key: string) => {
      values.delete(key);
      changed();
    },
  } as Storage;
}

type Granted = (lock: object | null) => unknown;

/** Exclusive Web Locks, the only kind that the client uses. */
export class Locks {
  readonly #held = new Map<string, Promise<unknown>>();

  async request(name: string, options: { ifAvailable?: boolean; signal?: AbortSignal }, granted: Granted): Promise<unknown> {
    while (this.#held.has(name)) {
      if (options.ifAvailable) return granted(null);
      const aborted = new Promise((_, reject) => options.signal?.addEventListener("abort", () => reject(options.signal?.reason), { once: true }));
      await Promise.race([this.#held.get(name), aborted]);
      options.signal?.throwIfAborted();
    }
    const work = (async () => granted({ name }))();
    const released = work.catch(() => undefined);
    this.#held.set(name, released);
    try {
      return await work;
    } finally {
      this.#held.delete(name);
    }
  }
}

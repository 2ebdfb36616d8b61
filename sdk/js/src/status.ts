/** Where the package's few log lines go. */
export interface Logger {
  /** Retries. The default logger leaves them out. */
  debug?(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

type Level = "debug" | "info" | "warn" | "error";

/** `console` without debug. */
export const defaultLogger: Logger = {
  info: (message) => console.info(message),
  warn: (message) => console.warn(message),
  error: (message) => console.error(message),
};

export type State = "starting" | "syncing" | "synced" | "replaced" | "unreachable" | "closed";

/** Counted since the start. */
export interface Counters {
  requests: number;
  failures: number;
  heartbeats: number;
  snapshots: number;
  linesSent: number;
  linesRefused: number;
  linesIgnored: number;
  resyncs: number;
  feedbackDelivered: number;
  feedbackDropped: number;
  callbackFailures: number;
  listings: number;
  listingFailures: number;
}

/** The current state. */
export interface StatusReport {
  state: State;
  /** The name of this run of the process, as the service knows it. */
  instance: string;
  guilds: number;
  shards: number;
  staff: number;
  waiting: { changes: number; feedback: number; batch: number };
  /** The last logged warning or error. */
  lastError: string | null;
  counters: Counters;
}

/** Something that was logged as a warning or error. */
export interface Problem {
  level: "warn" | "error";
  message: string;
}

/** The events of a companion, and what their listeners get. */
export interface Events {
  /** Everything has been sent. */
  synced: [];
  error: [Problem];
}

type Listener<Name extends keyof Events> = (...args: Events[Name]) => void;

/** How many different messages are remembered. */
const MOST_KINDS = 1_000;

/** Log lines, counters and events. A logger or listener that throws does no harm. */
export class Status {
  readonly counters: Counters = {
    requests: 0, failures: 0, heartbeats: 0, snapshots: 0, linesSent: 0, linesRefused: 0, linesIgnored: 0, resyncs: 0,
    feedbackDelivered: 0, feedbackDropped: 0, callbackFailures: 0, listings: 0, listingFailures: 0,
  };
  lastError: string | null = null;
  readonly #logger: Logger | null;
  readonly #said = new Set<string>();
  readonly #listeners: { [Name in keyof Events]: Set<Listener<Name>> } = { synced: new Set(), error: new Set() };

  constructor(logger: Logger | null) {
    this.#logger = logger;
  }

  debug(message: string): void {
    this.#write("debug", message);
  }

  info(message: string): void {
    this.#write("info", message);
  }

  warn(message: string): void {
    this.#problem("warn", message);
  }

  error(message: string): void {
    this.#problem("error", message);
  }

  /** Logs a warning a single time per kind, until the kind is forgotten. */
  warnOnce(kind: string, message: string): void {
    if (this.#isNew(kind)) this.warn(message);
  }

  forget(kind: string): void {
    this.#said.delete(kind);
  }

  /** A bug in this package; logged once per message. */
  fault(error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (this.#isNew(`fault ${text}`)) this.error(`a bug in this package: ${text}`);
  }

  on<Name extends keyof Events>(name: Name, listener: Listener<Name>): () => void {
    this.#listeners[name]?.add(listener);
    return () => {
      this.#listeners[name]?.delete(listener);
    };
  }

  emit<Name extends keyof Events>(name: Name, ...args: Events[Name]): void {
    for (const listener of [...this.#listeners[name]] as Listener<Name>[]) {
      try {
        listener(...args);
      } catch (error) {
        this.#write("error", `a listener for "${name}" failed: ${reasonOf(error)}`);
      }
    }
  }

  #isNew(kind: string): boolean {
    if (this.#said.has(kind) || this.#said.size >= MOST_KINDS) return false;
    this.#said.add(kind);
    if (this.#said.size === MOST_KINDS) this.#write("warn", "too many different messages: no new kind is logged from now on");
    return true;
  }

  #problem(level: "warn" | "error", message: string): void {
    this.lastError = message;
    this.#write(level, message);
    this.emit("error", { level, message });
  }

  #write(level: Level, message: string): void {
    try {
      this.#logger?.[level]?.(`[bot-companion] ${message}`);
    } catch {
      // The logger itself is broken, so there is nowhere left to report it.
    }
  }
}

/** An error's message, without its stack. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // fetch says only "fetch failed"; what failed is in its cause.
  const cause = error.cause instanceof Error ? error.cause : null;
  const code = cause && "code" in cause ? String(cause.code) : "";
  return cause ? `${error.message}: ${cause.message || code}` : error.message;
}

/** "1 guild", "2 guilds". */
export function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

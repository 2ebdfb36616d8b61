/** Where the package's few lines go. `console` is one. */
export interface Logger {
  debug?(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

type Level = "debug" | "info" | "warn" | "error";

/** A logger that cannot hurt: what the bot's own throws stays here. */
export class SafeLogger {
  readonly #seen = new Set<string>();
  readonly #target: Logger | null;

  constructor(target: Logger | null) {
    this.#target = target;
  }

  log(level: Level, message: string): void {
    try {
      this.#target?.[level]?.(`[bot-companion] ${message}`);
    } catch {
      // Nothing is left to tell it to.
    }
  }

  /** Logs a message that may come again and again a single time. */
  once(level: Level, message: string): void {
    if (this.#seen.has(message) || this.#seen.size >= 200) return;
    this.#seen.add(message);
    this.log(level, message);
  }
}

/** What an error says, without its stack. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // fetch says only "fetch failed"; what failed is in its cause.
  const cause = error.cause instanceof Error ? error.cause : null;
  const code = cause && "code" in cause ? String(cause.code) : "";
  return cause ? `${error.message}: ${cause.message || code}` : error.message;
}

import { closeSync, fchmodSync, ftruncateSync, linkSync, openSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";
import type { Clock } from "./clock.js";
import { type Status, reasonOf } from "./status.js";

/** How many obsolete lines the file may have before it's rewritten. */
const MOST_DEAD = 1_000;
/** Another machine's lock that hasn't been touched for this long counts as left over. */
const LOCK_TIMEOUT = 60_000;
const LOCK_TOUCH = 15_000;

/** A feedback line as it is on disk. */
export interface Spooled {
  number: number;
  text: string;
  about: string;
}

/**
 * Keeps feedback on disk until the service has it, so that a killed process loses none. A line of the file adds an entry,
 * `{"n": 7, "line": {…}}`, or removes one, `{"done": 7}`.
 */
export class Spool {
  readonly #path: string;
  readonly #status: Status;
  readonly #lines = new Map<number, string>();
  #file: number | null = null;
  #next = 1;
  #dead = 0;
  /** The last write was cut off: the next line must not continue it. */
  #torn = false;
  #unlock = (): void => {};

  private constructor(path: string, status: Status) {
    this.#path = path;
    this.#status = status;
  }

  /** Null if the file cannot be used; that is logged, and feedback then waits in memory only. */
  static open(path: string, clock: Clock, status: Status): Spool | null {
    const spool = new Spool(path, status);
    try {
      const unlock = lock(path, clock);
      if (!unlock) {
        status.warn(`the spool ${path} is in use by another process and is not used here: give each process its own file`);
        return null;
      }
      spool.#unlock = unlock;
      spool.#read();
      spool.#rewrite();
      return spool;
    } catch (error) {
      spool.#unlock();
      status.warn(`the spool cannot be used, feedback is kept in memory only: ${reasonOf(error)}`);
      return null;
    }
  }

  /** What was there at the start, oldest first. */
  entries(): Spooled[] {
    return [...this.#lines].map(([number, text]) => ({ number, text, about: aboutOf(text) }));
  }

  /** The entry's number; null if it could not be written. */
  add(text: string): number | null {
    const number = this.#next++;
    if (!this.#append(`{"n":${number},"line":${text}}`)) return null;
    this.#lines.set(number, text);
    return number;
  }

  remove(number: number): void {
    if (!this.#lines.delete(number) || this.#file === null) return;
    this.#dead += 2;
    try {
      if (this.#lines.size === 0) {
        ftruncateSync(this.#file, 0);
        this.#dead = 0;
        this.#torn = false;
      } else if (this.#dead >= MOST_DEAD) this.#rewrite();
      else this.#append(`{"done":${number}}`);
    } catch (error) {
      this.#broken(error);
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
    this.#unlock();
  }

  #read(): void {
    let content: string;
    try {
      content = readFileSync(this.#path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      throw error;
    }
    for (const text of content.split("\n")) {
      let record: { n?: unknown; line?: unknown; done?: unknown } | null;
      try {
        record = JSON.parse(text) as typeof record;
      } catch {
        // The end of a line that was being written when the process was killed.
        continue;
      }
      if (typeof record?.n === "number" && typeof record.line === "object") {
        this.#lines.set(record.n, JSON.stringify(record.line));
        this.#next = Math.max(this.#next, record.n + 1);
      } else if (typeof record?.done === "number") this.#lines.delete(record.done);
    }
  }

  #rewrite(): void {
    const fresh = `${this.#path}.new`;
    const lines = [...this.#lines].map(([number, text]) => `{"n":${number},"line":${text}}\n`);
    const file = openSync(fresh, "w", 0o600);
    try {
      fchmodSync(file, 0o600);
      writeFileSync(file, lines.join(""));
    } finally {
      closeSync(file);
    }
    renameSync(fresh, this.#path);
    if (this.#file !== null) closeSync(this.#file);
    this.#file = openSync(this.#path, "a", 0o600);
    this.#dead = 0;
    this.#torn = false;
  }

  #append(line: string): boolean {
    if (this.#file === null) return false;
    const bytes = Buffer.from(`${this.#torn ? "\n" : ""}${line}\n`);
    try {
      this.#torn = true;
      if (writeSync(this.#file, bytes) < bytes.length) throw new Error("the disk is full");
      this.#torn = false;
      return true;
    } catch (error) {
      this.#broken(error);
      return false;
    }
  }

  #broken(error: unknown): void {
    this.#status.warnOnce("spool", `the spool cannot be written, feedback is kept in memory only: ${reasonOf(error)}`);
  }
}

function aboutOf(text: string): string {
  const { type, id } = JSON.parse(text) as { type?: unknown; id?: unknown };
  return `${String(type)} ${String(id)}`;
}

interface Holder {
  pid: number;
  host: string;
  /** Tells a process apart from an older one with the same ID. */
  started: string | null;
}

/** Takes the lock next to the file; null if another process has it. The returned function releases it. */
function lock(path: string, clock: Clock): (() => void) | null {
  const file = `${path}.lock`;
  const own = `${file}.${process.pid}.${threadId}`;
  const holder: Holder = { pid: process.pid, host: hostname(), started: startOf(process.pid) };
  writeFileSync(own, JSON.stringify(holder), { mode: 0o600 });
  try {
    if (!tryLink(own, file)) {
      const seen = read(file);
      if (seen !== null && isHeld(seen, file, clock)) return null;
      // If several processes find it left over, one of them moves it away. If that turns out to be another's new lock, it's put back.
      const left = `${own}.left`;
      renameSync(file, left);
      const moved = read(left);
      if (moved !== seen) tryLink(left, file);
      rmSync(left, { force: true });
      if (moved !== seen || !tryLink(own, file)) return null;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  } finally {
    rmSync(own, { force: true });
  }
  let cancel = (): void => {};
  const touch = (): void => {
    cancel = clock.after(LOCK_TOUCH, touch);
    try {
      const now = clock.now() / 1_000;
      utimesSync(file, now, now);
    } catch {
      // Someone removed it. As far as we can tell, the file is still ours.
    }
  };
  touch();
  return () => {
    cancel();
    rmSync(file, { force: true });
  };
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function read(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function isHeld(content: string, file: string, clock: Clock): boolean {
  let holder: Holder;
  try {
    holder = JSON.parse(content) as Holder;
  } catch {
    return false;
  }
  if (holder.host !== hostname()) return clock.now() - statSync(file).mtimeMs < LOCK_TIMEOUT;
  const started = startOf(holder.pid);
  if (started !== null) return started === holder.started;
  try {
    process.kill(holder.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** When a process started, in Linux's ticks; null on other systems, and if there is no such process. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may contain anything; the 20th field after it is the start time.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}

/** Throws if the file could not be used as a spool. What is in it stays. */
export function probeSpool(path: string): void {
  const probe = `${path}.${process.pid}.probe`;
  try {
    writeFileSync(probe, "", { mode: 0o600 });
    linkSync(probe, `${probe}.link`);
    if (read(path) !== null) closeSync(openSync(path, "r+"));
  } finally {
    rmSync(probe, { force: true });
    rmSync(`${probe}.link`, { force: true });
  }
}

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Options } from "../src/index.js";
import { KEY } from "./bots.js";

/** Queued entries are only sent on close. */
export const PATIENT = { gatherTime: 3_600_000, heartbeatInterval: 3_600_000 };

interface Bot {
  process: ChildProcess;
  said(): string;
  exit: Promise<{ code: number | null; signal: string | null }>;
}

/** Starts `child.ts`, a bot process with feedback in its queue. */
export function startBot(url: string, entries: string[], options: Options, more: object = {}): Bot {
  const all = { url, key: KEY, limits: PATIENT, ...options };
  const child = spawn(process.execPath, [fileURLToPath(new URL("child.js", import.meta.url)), JSON.stringify({ options: all, entries, ...more })], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) => child.on("close", (code, signal) => resolve({ code, signal })));
  return { process: child, said: () => output, exit };
}

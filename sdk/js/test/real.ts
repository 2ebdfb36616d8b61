import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { PYTHON } from "./processes.js";
import { until } from "./support.js";

const BINARY = process.env["BOT_COMPANION"];
/** Why tests with the real service are skipped, or false. */
export const needsService = BINARY && PYTHON ? false : "BOT_COMPANION and FAKE_DISCORD_PYTHON are not both set";

/** The real service with its sandbox, as `dev` starts it. */
export class RealService {
  url = "";
  key = "";
  #process: ChildProcess | null = null;

  constructor(readonly folder: string) {}

  async start(): Promise<void> {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const child = spawn(BINARY as string, ["dev", "--json", "--no-limits", "--listen", listen, "--data", join(this.folder, "data")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let output = "";
    let log = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
    child.stderr.setEncoding("utf8").on("data", (piece: string) => (log += piece));
    try {
      await until("the service listens", () => output.endsWith("\n"));
    } catch (error) {
      throw new Error(`${String(error)}; its log: ${log}`);
    }
    const addresses = JSON.parse(output) as { service: string; bot_key: string };
    this.url = addresses.service;
    this.key = addresses.bot_key;
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async get(path: string, token?: string): Promise<any> { // eslint-disable-line @typescript-eslint/no-explicit-any
    const response = await fetch(this.url + path, token ? { headers: { token, "cache-control": "no-cache" } } : {});
    const { data } = (await response.json()) as { data: unknown };
    if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(data)}`);
    return data;
  }

  async signIn(person: string): Promise<string> {
    const response = await fetch(`${this.url}/auth`, { method: "POST", headers: { "idp-code": person } });
    return ((await response.json()) as { data: { token: string } }).data.token;
  }
}

import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { type Json, type Service, callOf, until } from "./support.js";

/** Python with the fake Discord installed; `tests/system/sdk-js` names it. */
export const PYTHON = process.env["FAKE_DISCORD_PYTHON"];

/** The fake Discord, as its README describes it. */
export class FakeDiscord {
  private constructor(
    readonly api: string,
    readonly token: string,
    readonly control: string,
    readonly process: ChildProcess,
  ) {}

  static async start(world: Json): Promise<FakeDiscord> {
    const child = spawn(PYTHON ?? "python3", ["-m", "fake_discord", "--port", "0", "--with-stdin"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
    await until("the fake Discord listens", () => output.includes("\n"));
    const { api, token, control } = JSON.parse(output) as Record<string, string>;
    const fake = new FakeDiscord(api ?? "", token ?? "", control ?? "", child);
    await fake.tell("world", world);
    return fake;
  }

  async tell(call: string, body: Json): Promise<Json> {
    const response = await fetch(`${this.control}/${call}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${call}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Json;
  }

  emit(type: string, data: Json): Promise<Json> {
    return this.tell("emit", { type, data });
  }

  /** Turns a fault on until it is cleared. */
  fault(where: string, what: string, more: Json = {}): Promise<Json> {
    return this.tell("fault", { where, do: what, ...more });
  }

  async clearFaults(): Promise<void> {
    await fetch(`${this.control}/faults`, { method: "DELETE" });
  }

  /** Returns once this has happened that often. */
  async wait(what: string, count = 1): Promise<void> {
    const response = await fetch(`${this.control}/wait?for=${encodeURIComponent(what)}&count=${count}`);
    if (!response.ok) throw new Error(`wait for ${what}: ${response.status} ${await response.text()}`);
  }

  stop(): void {
    this.process.kill("SIGKILL");
  }
}

/** The feed's rules behind a socket. */
export async function listen(service: Service, key: string, port = 0): Promise<{ url: string; port: number; stop(): Promise<void> }> {
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const headers = request.headers as Record<string, string>;
      const { method, url } = request as { method: "PUT"; url: string };
      let reply: { status: number; data?: Json; retryAfter?: string };
      try {
        reply =
          headers["authorization"] === `Bearer ${key}`
            ? service.answer(callOf({ method, path: url, headers }, textOf(headers, Buffer.concat(pieces))))
            : { status: 401, data: { error: "bot_key_invalid" } };
      } catch (error) {
        reply = { status: 500, data: { error: String(error) } };
      }
      response.writeHead(reply.status, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: reply.status, message: "", data: reply.data ?? {} }));
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function textOf(headers: Record<string, string>, body: Buffer): string {
  return (headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString("utf8");
}

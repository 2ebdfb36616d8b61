import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, GatewayIntentBits } from "discord.js";
import { attach } from "../src/index.js";
import { FakeDiscord, PYTHON } from "./processes.js";
import { type Json, Log, until } from "./support.js";

const BINARY = process.env["BOT_COMPANION"];
const skip = BINARY && PYTHON ? false : "BOT_COMPANION and FAKE_DISCORD_PYTHON are not both set";

/** The real service with its sandbox, as `dev` starts it. */
class RealService {
  url = "";
  key = "";
  #process: ChildProcess | null = null;

  constructor(readonly folder: string) {}

  async start(): Promise<void> {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const child = spawn(BINARY as string, ["dev", "--listen", listen, "--data", join(this.folder, "data")], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (piece: string) => (output += piece));
    try {
      await until("the service listens", () => /service\s+(http:\S+)/.test(output));
    } catch (error) {
      throw new Error(`${String(error)}; it said: ${output}`);
    }
    this.url = /service\s+(http:\S+)/.exec(output)?.[1]?.replace(/\/$/, "") ?? "";
    await until("the banner names the demo key", () => /bck_\w+/.test(output));
    this.key = /bck_\w+/.exec(output)?.[0] ?? "";
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

test("guilds and health show in the real service, which is killed and comes back under the bot", { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "sdk-js-"));
  const service = new RealService(folder);
  const log = new Log();
  let fake: FakeDiscord | null = null;
  let client: Client | null = null;
  let companion: ReturnType<typeof attach> | null = null;
  try {
    await service.start();
    let token = await service.signIn("owner");
    let common: Json[] = [];
    // The demo bot's guilds tell in which ones the sandbox's person is.
    await until("the demo bot's guilds", async () => (common = await service.get("/guilds", token)).length >= 2);
    const [own, other] = common as [Json, Json];
    const world = (id: string, name: string): Json => ({ id, name, owner_id: own["owner"], member_count: 12, roles: [{ id: "50", name: "Crew" }] });
    fake = await FakeDiscord.start({ heartbeat_interval: 200, guilds: [world(own["id"], "From discord.js")] });

    client = new Client({ intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMembers], rest: { api: fake.api } });
    companion = attach(client, { url: service.url, key: service.key, logger: log, limits: { gatherTime: 20, firstRetry: 50, heartbeatInterval: 200 } });
    let reconnects = 0;
    client.on("shardReconnecting", () => (reconnects += 1));
    await client.login(fake.token);

    const names = async (): Promise<string[]> => ((await service.get("/guilds", token)) as Json[]).map((guild) => guild["name"]);
    await until("the bot's guild alone", async () => (await names()).join() === "From discord.js");
    await until("one healthy shard", async () => {
      const { health, resources } = await service.get("/");
      return Object.keys(health.bot.shards).join() === "0" && health.bot.shards["0"].heartbeatAcknowledged > 0 && resources.memory > 0;
    });
    await fake.emit("GUILD_CREATE", world(other["id"], "A second one"));
    await until("a second guild", async () => (await names()).length === 2);

    await service.kill();
    await fake.emit("GUILD_UPDATE", { id: own["id"], name: "Renamed meanwhile" });
    await fake.emit("GUILD_DELETE", { id: other["id"] });
    await until("the outage is told", () => log.count("cannot be reached") === 1);
    await service.start();
    // The sandbox forgets its grants.
    token = await service.signIn("owner");
    await until("what happened meanwhile", async () => (await names()).join() === "Renamed meanwhile");

    assert.equal(reconnects, 0);
    assert.equal(client.isReady(), true);
  } catch (error) {
    console.error(log.lines.join("\n"));
    throw error;
  } finally {
    await companion?.close();
    await client?.destroy();
    fake?.stop();
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  }
});

import { EventEmitter } from "node:events";
import type { FeedRequest, Logger, Transport } from "../src/index.js";

export class Log implements Logger {
  readonly lines: string[] = [];
  debug(): void {}
  info(message: string): void {
    this.lines.push(`info ${message}`);
  }
  warn(message: string): void {
    this.lines.push(`warn ${message}`);
  }
  error(message: string): void {
    this.lines.push(`error ${message}`);
  }
  count(part: string): number {
    return this.lines.filter((line) => line.includes(part)).length;
  }
}

export type Json = Record<string, any>; // eslint-disable-line @typescript-eslint/no-explicit-any

export interface Call {
  method: string;
  path: string;
  instance: string | null;
  sequence: number | null;
  after: number | null;
  /** Lines of NDJSON, or the one JSON object. */
  lines: Json[];
}

type Reply = { status: number; data?: Json; retryAfter?: string };

/** An in-memory implementation of the rules in feed.md: sequence numbers, gaps and snapshots. */
export class Service {
  next = new Map<string, number>();
  guilds = new Map<string, Json>();
  subscriptions: Json[] = [];
  feedback = new Map<string, Json>();
  team: Json[] = [];
  heartbeats: Json[] = [];
  /** What the responses say about shards that belong to another process: `replaced`, `free`. */
  owners: Json = {};
  membersGone: string[] = [];
  calls: Call[] = [];
  /** Checks a request first. If it returns a response, nothing is applied. */
  before: (call: Call) => Reply | undefined = () => undefined;
  /** Checks a line. If it returns a reason, the response is a 422. */
  refuse: (line: Json) => string | undefined = () => undefined;

  answer(call: Call): Reply {
    this.calls.push(call);
    const early = this.before(call);
    if (early) return early;
    if (call.path === "/bot/heartbeat") {
      this.heartbeats.push(call.lines[0] as Json);
      return { status: 200, data: {} };
    }
    if (!call.instance || !call.sequence) return { status: 400, data: { error: "feed_header_invalid" } };
    const bad = call.lines.findIndex((line) => this.refuse(line));
    if (bad >= 0) {
      const reason = this.refuse(call.lines[bad] as Json);
      return { status: 422, data: { error: "line_invalid", line: bad + 1, reason } };
    }
    const next = this.next.get(call.instance) ?? 1;
    if (call.path === "/bot/events") return this.#events(call, call.instance, next);
    const lines = call.lines.slice(0, -1);
    if (call.lines.at(-1)?.["end"] !== lines.length) {
      return { status: 422, data: { error: "line_invalid", line: call.lines.length, reason: "no end" } };
    }
    if (next < (call.after ?? 1)) return { status: 409, data: { error: "resync_required", next } };
    if (next > call.sequence) return { status: 409, data: { error: "snapshot_outdated", next } };
    this.next.set(call.instance, call.sequence);
    if (call.path === "/bot/subscriptions") this.subscriptions = lines;
    else this.#shard(call.path, lines);
    return { status: 200, data: { applied: lines.length, ignored: 0, next: call.sequence } };
  }

  #shard(path: string, lines: Json[]): void {
    const [, count, shard] = /^\/bot\/shards\/(\d+)\/(\d+)\/guilds$/.exec(path) ?? [];
    if (!count || !shard) throw new Error(path);
    const old = new Map(this.guilds);
    for (const id of old.keys()) if ((BigInt(id) >> 22n) % BigInt(count) === BigInt(shard)) this.guilds.delete(id);
    for (const line of lines) {
      if ((BigInt(line["id"]) >> 22n) % BigInt(count) !== BigInt(shard)) throw new Error(`${line["id"]} on ${path}`);
      const kept = line["unavailable"] ? old.get(line["id"]) : { grants: {}, staff: {}, ...keptParts(old.get(line["id"])), ...line };
      if (kept) this.guilds.set(line["id"], kept);
    }
  }

  #events(call: Call, instance: string, next: number): Reply {
    const first = call.sequence ?? 0;
    if (first > next) return { status: 409, data: { error: "resync_required", next } };
    const fresh = call.lines.slice(Math.max(0, next - first));
    for (const line of fresh) this.#apply(line);
    const after = Math.max(next, first + call.lines.length);
    this.next.set(instance, after);
    return { status: 200, data: { applied: fresh.length, ignored: 0, next: after, ...this.owners } };
  }

  #apply(line: Json): void {
    const { type, ...rest } = line;
    if (type === "guild") this.guilds.set(rest["id"], { grants: {}, staff: {}, ...this.guilds.get(rest["id"]), ...rest });
    else if (type === "guild_gone") this.guilds.delete(rest["id"]);
    else if (type === "feedback") this.feedback.set(rest["id"], rest);
    else if (type === "feedback_gone") this.feedback.delete(rest["id"]);
    else if (type === "team") this.team = rest["members"];
    else if (type === "member") {
      const guild = this.guilds.get(rest["guild"]);
      if (guild && rest["roles"].length > 0) guild["staff"] = { ...guild["staff"], [rest["user"]]: rest["roles"] };
      else if (guild) guild["staff"] = without(guild["staff"], rest["user"]);
    } else if (type === "member_gone") {
      this.membersGone.push(`${rest["guild"]}/${rest["user"]}`);
      const guild = this.guilds.get(rest["guild"]);
      if (guild) guild["staff"] = without(guild["staff"], rest["user"]);
    } else throw new Error(`unknown event ${type}`);
  }

  /** Drops everything, like a service that starts with an empty folder. */
  forget(): void {
    this.next.clear();
    this.guilds.clear();
    this.subscriptions = [];
    this.feedback.clear();
    this.team = [];
  }

  of(path: string): Call[] {
    return this.calls.filter((call) => call.path.startsWith(path));
  }
}

/** Fields that a snapshot leaves unchanged if it omits them. */
function keptParts(guild: Json | undefined): Json {
  return guild ? { grants: guild["grants"], staff: guild["staff"] } : {};
}

function without(staff: Json, user: string): Json {
  return Object.fromEntries(Object.entries(staff).filter(([id]) => id !== user));
}

/** A request as the service reads it. */
export function callOf({ method, path, headers }: Pick<FeedRequest, "method" | "path" | "headers">, text: string): Call {
  const lines = text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Json);
  const number = (name: string): number | null => (headers[name] === undefined ? null : Number(headers[name]));
  return { method, path, instance: headers["feed-instance"] ?? null, sequence: number("feed-sequence"), after: number("feed-after"), lines };
}

/** A transport to an in-memory service, or to nowhere. */
export class Wire {
  isReachable = true;

  constructor(readonly service: Service) {}

  readonly transport: Transport = async (request) => {
    if (!this.isReachable) throw new Error("connection refused");
    const lines: string[] = [];
    if (Array.isArray(request.lines)) lines.push(...request.lines);
    else for await (const some of request.lines as AsyncIterable<string[]>) lines.push(...some);
    const { status, data, retryAfter } = this.service.answer(callOf(request, lines.join("\n")));
    return { status, data: data ?? {}, retryAfter: retryAfter ?? null };
  };
}

/** The parts of discord.js' client that the SDK uses. */
export class FakeClient extends EventEmitter {
  readonly user = { username: "lantern" };
  readonly guilds = { cache: new Map<string, ReturnType<typeof fakeGuild>>() };
  readonly ws = { shards: new Map<number, { id: number; ping: number; lastPingTimestamp: number }>() };
  readonly options: Json = { shardCount: 1, intents: { bitfield: 3 } };

  constructor(guilds = 0) {
    super();
    this.ws.shards.set(0, { id: 0, ping: -1, lastPingTimestamp: -1 });
    for (let n = 1; n <= guilds; n += 1) this.add(fakeGuild(n));
  }

  add(guild: ReturnType<typeof fakeGuild>): void {
    this.guilds.cache.set(guild.id, guild);
  }

  ready(): void {
    this.emit("raw", { t: "READY", d: { guilds: [...this.guilds.cache.keys()].map((id) => ({ id })) } }, 0);
    this.emit("shardReady", 0);
  }
}

/** The n-th guild: on shard n modulo the number of shards. */
export function guildId(n: number): string {
  return String(BigInt(n) << 22n);
}

export function fakeGuild(n: number, name = `Guild ${n}`) {
  const members = { cache: new Map<string, never>() };
  return { id: guildId(n), name, icon: null as string | null, ownerId: "77", memberCount: 0, available: true, members, toString: () => name };
}

/** Waits for a condition. Only a failing test reaches the deadline. */
export async function until(what: string, holds: () => unknown, ms = 300_000): Promise<void> {
  const deadline = performance.now() + ms;
  for (;;) {
    let cause: unknown;
    try {
      if (await holds()) return;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what} (${String(cause ?? "it is false")})`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

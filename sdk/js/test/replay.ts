import assert from "node:assert/strict";
import { Core } from "../src/core.js";
import type { Handlers } from "../src/callbacks.js";
import type { Delivery, FeedRequest, FeedResponse, Limits, Transport } from "../src/index.js";
import { Status } from "../src/status.js";
import { type GuildFields, type Member, type ShardReport, type World, lacksIntent, shardOf } from "../src/world.js";
import { SimulatedClock } from "./clock.js";

export type Json = Record<string, any>; // eslint-disable-line @typescript-eslint/no-explicit-any

interface Guild {
  id: string;
  name: string;
  icon: string | null;
  owner: string;
  members: number;
  unavailable: boolean;
  people: Record<string, string[]>;
  cached: boolean;
}

/** The bot of a scenario. */
class ScriptedWorld implements World {
  readonly membersIntent = "GuildMembers";
  readonly guilds = new Map<string, Guild>();
  readonly #name: string;
  #shardCount = 1;
  #shards: number[] = [];
  #intents = ["guilds", "members"];
  #listing: Record<string, string> = {};
  #hung: (() => void)[] = [];
  /** The library knows its shards from the first session on. */
  isConnected = false;

  constructor(world: Json) {
    this.#name = world["name"] ?? "lantern";
    this.change({ shards: [0], ...world });
  }

  change({ shard_count, shards, intents, guilds, gone }: Json): void {
    this.#shardCount = shard_count ?? this.#shardCount;
    this.#shards = shards ?? this.#shards;
    this.#intents = intents ?? this.#intents;
    for (const guild of guilds ?? []) this.put(guild);
    for (const id of gone ?? []) this.guilds.delete(id);
  }

  put(guild: Json): void {
    const known = { name: `guild ${guild["id"]}`, icon: null, owner: "10", members: 5, unavailable: false, people: {}, cached: true };
    this.guilds.set(guild["id"], { ...known, ...this.guilds.get(guild["id"]), ...guild } as Guild);
  }

  name(): string {
    return this.#name;
  }

  library(): string {
    return "scripted 1.0";
  }

  shardCount(): number {
    return this.#shardCount;
  }

  shards(): ShardReport[] {
    if (!this.isConnected) return [];
    return this.#shards.map((id) => ({ id, sent_ms_ago: null, acknowledged_ms_ago: null, latency: null }));
  }

  guildIds(shard: number): string[] {
    return [...this.guilds.keys()].filter((id) => shardOf(id, this.#shardCount) === shard);
  }

  guild(id: string): GuildFields | "unavailable" | null {
    const guild = this.guilds.get(id);
    if (!guild) return null;
    return guild.unavailable ? "unavailable" : guild;
  }

  cachedMembers(id: string): Member[] | null {
    return this.guilds.get(id)?.cached && this.#intents.includes("members") ? this.#membersOf(id) : null;
  }

  listingObstacle(): string | null {
    return this.#intents.includes("members") ? null : lacksIntent(this.membersIntent);
  }

  async listMembers(guild: string): Promise<Member[]> {
    const members = this.#membersOf(guild);
    if (this.#outcome(guild) === "hang") await new Promise<void>((resolve) => this.#hung.push(resolve));
    const outcome = this.#outcome(guild);
    if (outcome === "forbidden") throw Object.assign(new Error("Missing Access"), { status: 403 });
    if (outcome === "fail") throw Object.assign(new Error("Internal Server Error"), { status: 500 });
    return members;
  }

  setListing(outcome: string, guild?: string): void {
    if (guild === undefined) this.#listing = { all: outcome };
    else this.#listing[guild] = outcome;
    for (const go of this.#hung.splice(0)) go();
  }

  #outcome(guild: string): string {
    return this.#listing[guild] ?? this.#listing["all"] ?? "ok";
  }

  #membersOf(id: string): Member[] {
    return Object.entries(this.guilds.get(id)?.people ?? {}).map(([user, roles]) => ({ id: user, roles: [...roles] }));
  }
}

interface Pending {
  request: FeedRequest;
  lines: string[];
  isComplete: boolean;
  answer(response: FeedResponse): void;
  lose(): void;
  hang(): void;
}

/** Holds every request until a step answers it. */
class ScriptedService {
  readonly #acknowledgesHeartbeats: boolean;
  pending: Pending[] = [];
  isAway = false;

  constructor(acknowledgesHeartbeats: boolean) {
    this.#acknowledgesHeartbeats = acknowledgesHeartbeats;
  }

  readonly transport: Transport = (request) => {
    if (this.isAway) return Promise.reject(new Error("connection refused"));
    if (this.#acknowledgesHeartbeats && request.path === "/bot/heartbeat") {
      return Promise.resolve({ status: 200, retryAfter: null, data: {} });
    }
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.pending = this.pending.filter((one) => one !== pending);
      };
      const pending: Pending = {
        request, lines: [], isComplete: false,
        answer: (response) => (end(), resolve(response)),
        lose: () => (end(), reject(new Error("connection reset"))),
        hang: end,
      };
      this.pending.push(pending);
      request.signal.addEventListener("abort", end);
      this.#read(pending).catch(reject);
    });
  };

  async #read(pending: Pending): Promise<void> {
    const { lines } = pending.request;
    if (Array.isArray(lines)) pending.lines.push(...lines);
    else for await (const some of lines as AsyncIterable<string[]>) pending.lines.push(...some);
    pending.isComplete = true;
  }
}

/** Replays one scenario on the core. */
export class Replay {
  readonly #clock = new SimulatedClock();
  readonly #world: ScriptedWorld;
  readonly #service: ScriptedService;
  readonly #core: Core;
  readonly #callbacks: Record<string, { does: string; value?: Json | Json[] }> = {};
  /** Lines of the log that no step has taken. */
  readonly #log: { level: string; message: string }[] = [];
  #events: { event: string; message: string }[] = [];
  readonly #deliveries = new Map<string, Delivery | "pending">();
  readonly #results = new Map<string, Promise<Delivery>>();
  /** Calls that the next `synced` makes. */
  readonly #whenSynced: Json[] = [];
  #isClosed = false;

  constructor({ world = {}, callbacks = {}, limits = {}, heartbeats }: Json) {
    this.#world = new ScriptedWorld(world);
    this.#service = new ScriptedService(heartbeats !== "expected");
    const write = (level: string) => (message: string) => void this.#log.push({ level, message });
    const status = new Status({ info: write("info"), warn: write("warn"), error: write("error") });
    status.on("synced", () => {
      this.#events.push({ event: "synced", message: "" });
      for (const step of this.#whenSynced.splice(0)) this.#make(step);
    });
    status.on("error", ({ message }) => this.#events.push({ event: "error", message }));
    const handlers: Handlers = {};
    for (const [name, value] of Object.entries(callbacks)) this.#configure(handlers, name, value as Json);
    this.#core = new Core({
      world: this.#world, handlers, transport: this.#service.transport, url: "http://companion.test", clock: this.#clock, status,
      instance: "scenario", limits: limitsOf(limits),
    });
    this.#core.start();
  }

  async step(step: Json): Promise<void> {
    if ("bot" in step) this.#bot(step);
    else if ("world" in step) this.#world.change(step["world"]);
    else if ("callback" in step) this.#callbacks[step["callback"]] = { does: step["does"], value: step["value"] };
    else if ("listing" in step) this.#world.setListing(step["listing"], step["guild"]);
    else if ("call" in step) this.#call(step);
    else if ("service" in step) this.#service.isAway = step["service"] === "away" || (step["service"] !== "back" && this.#service.isAway);
    else if ("advance" in step) return this.#clock.pass(step["advance"] * 1_000);
    else if ("expect" in step) this.#expect(step);
    else if ("log" in step) this.#takeLog(step);
    else if ("delivery" in step) this.#checkDelivery(step);
    else if ("status" in step) checkPart(snake(this.#core.status()), step["status"], "status");
    else if ("event" in step) this.#takeEvent(step);
    else if ("closed" in step) assert.equal(this.#isClosed, step["closed"], "closed");
    else throw new Error("an unknown step");
    return this.#clock.pass(0);
  }

  end(): void {
    assert.deepEqual(this.#service.pending.map(summary), [], "under way at the end");
    assert.deepEqual(this.#log.filter(({ level }) => level !== "info"), [], "not taken by a step");
  }

  #configure(handlers: Handlers, name: string, value: Json): void {
    this.#callbacks[name] = { does: "answer", value };
    const act = (answer: (value: never) => unknown): unknown => {
      const { does, value: given } = this.#callbacks[name] as { does: string; value: never };
      if (does === "fail") throw new Error("the database is down");
      if (does === "slip") return given;
      if (does === "hang") return new Promise(() => {});
      if (does === "slow") return new Promise((resolve) => void this.#clock.after(1_000, () => resolve(answer(given))));
      if (does === "hang_in_iteration") return hanging((given as unknown as Json[] | undefined)?.[0] ?? {});
      return answer(given);
    };
    if (name === "subscriptions" || name === "team") handlers[name] = () => act((list) => list);
    else if (name === "grants") handlers.grants = (guild) => act((all) => all[guild] ?? {});
    else handlers[name as "setup"] = (guild) => act((all) => all[guild] ?? false);
  }

  #bot({ bot, shard, guild, user, role, roles, guilds, seconds, fails }: Json): void {
    const core = this.#core;
    const people = this.#world.guilds.get(guild)?.people;
    switch (bot) {
      case "session":
        this.#world.isConnected = true;
        return core.session(shard, guilds ?? this.#world.guildIds(shard));
      case "ready":
        return core.ready(shard);
      case "limited":
        return core.limited(seconds * 1_000);
      case "guild_here":
        this.#world.put({ ...guild, unavailable: false });
        return core.guildHere(guild.id);
      case "guild_gone":
        this.#world.guilds.delete(guild);
        return core.guildGone(guild);
      case "guild_unavailable":
        this.#world.put({ id: guild, unavailable: true });
        return core.guildUnavailable(guild);
      case "guild_changed":
        this.#world.put(guild);
        return core.guildChanged(guild.id);
      case "role_changed":
        return core.roleChanged(guild);
      case "role_gone":
        for (const held of Object.values(people ?? {})) if (held.includes(role)) held.splice(held.indexOf(role), 1);
        return core.roleGone(guild, role);
      case "member":
        if (people) people[user] = roles;
        return core.hear(guild, () => core.member(guild, user, fails ? failing() : roles));
      case "member_joined":
        if (people) people[user] = roles ?? [];
        this.#count(guild, 1);
        return core.memberJoined(guild, user, roles ?? []);
      case "member_gone":
        delete people?.[user];
        this.#count(guild, -1);
        return core.memberGone(guild, user);
      default:
        throw new Error("an unknown event");
    }
  }

  #count(id: string, by: number): void {
    const guild = this.#world.guilds.get(id);
    if (guild) guild.members += by;
  }

  #call(step: Json): void {
    const { when } = step;
    if (when === undefined) this.#make(step);
    else if (when === "synced") this.#whenSynced.push(step);
    else void this.#results.get(when)?.then(() => this.#make(step));
  }

  #make(step: Json): void {
    const core = this.#core;
    const { call, guild, entry, id } = step;
    if (call === "changed") return guild === undefined ? core.allChanged() : core.changed(guild);
    if (call === "subscriptions_changed") return core.subscriptionsChanged();
    if (call === "team_changed") return core.teamChanged();
    if (call === "close") return void core.close().then(() => (this.#isClosed = true));
    assert.ok(call === "feedback" || call === "feedback_gone", "an unknown call");
    this.#deliveries.set(step["as"], "pending");
    const result = call === "feedback" ? core.feedback(entry) : core.feedbackGone(id);
    this.#results.set(step["as"], result);
    void result.then((delivery) => this.#deliveries.set(step["as"], delivery));
  }

  #expect({ expect, sequence, after = sequence - 1, lines, count, body, answer }: Json): void {
    const underWay = this.#service.pending.filter(({ isComplete }) => isComplete).map(summary);
    if (expect === "nothing") return assert.deepEqual(underWay, [], "under way");
    const found = this.#service.pending.find(({ request }) => `${request.method} ${request.path}` === expect);
    assert.ok(found, `not under way; but ${JSON.stringify(underWay)} is, and the log says ${JSON.stringify(this.#log)}`);
    assert.ok(underWay.length === 1 || underWay.some(({ request }) => request.includes("heartbeat")), `more is under way: ${JSON.stringify(underWay)}`);
    assert.ok(found.isComplete, "the body is not complete");
    const sent = found.lines.map((line) => JSON.parse(line) as Json);
    if (body) checkPart(sent[0] as Json, body, "body");
    if (expect === "PUT /bot/heartbeat") assert.equal(sent[0]?.["leaving"], body?.["leaving"], "leaving");
    if (sequence !== undefined) {
      assert.equal(found.request.headers["feed-sequence"], String(sequence));
      const expected = found.request.method === "PUT" && after !== null ? String(after) : undefined;
      assert.equal(found.request.headers["feed-after"], expected, "Feed-After");
    }
    if (found.request.method === "PUT" && !expect.endsWith("heartbeat")) assert.deepEqual(sent.pop(), { end: sent.length }, "the last line");
    if (lines) assert.deepEqual(sent, lines);
    if (count !== undefined) assert.equal(sent.length, count);
    reply(found, sent.length, answer);
  }

  #takeLog({ log, contains }: Json): void {
    const index = this.#log.findIndex(({ level, message }) => level === log && message.includes(contains));
    assert.ok(index >= 0, `no such line in ${JSON.stringify(this.#log)}`);
    this.#log.splice(index, 1);
  }

  #takeEvent({ event, contains = "" }: Json): void {
    const found = this.#events.some((one) => one.event === event && one.message.includes(contains));
    assert.ok(found, `not emitted, but ${JSON.stringify(this.#events)}`);
    this.#events = this.#events.filter((one) => one.event !== event);
  }

  #checkDelivery({ delivery, delivered, contains }: Json): void {
    const result = this.#deliveries.get(delivery);
    if (delivered === "pending" || result === "pending" || !result) return assert.equal(result, delivered);
    assert.equal(result.delivered, delivered, result.reason ?? "");
    if (contains) assert.ok(result.reason?.includes(contains), `the reason is ${result.reason}`);
  }
}

function reply(pending: Pending, lines: number, answer: Json | string | undefined): void {
  const first = Number(pending.request.headers["feed-sequence"]);
  const isEvents = pending.request.path === "/bot/events";
  if (answer === undefined) {
    const data = Number.isNaN(first) ? {} : { applied: lines, ignored: 0, next: isEvents ? first + lines : first };
    pending.answer({ status: 200, retryAfter: null, data });
  } else if (answer === "lost") pending.lose();
  else if (answer === "garbage") pending.answer({ status: 200, retryAfter: null, data: null });
  else if (typeof answer === "object") pending.answer({ status: answer["status"], retryAfter: answer["retry_after"] ?? null, data: answer["data"] ?? null });
  else if (answer === "hang") pending.hang();
  else throw new Error("an unknown answer");
}

function summary({ request, lines }: Pending): { request: string; lines: string[] } {
  return { request: `${request.method} ${request.path} ${request.headers["feed-sequence"] ?? ""}`, lines };
}

function* failing(): Generator<string> {
  throw new Error("a handler fails");
}

async function* hanging(entry: Json): AsyncGenerator<Json> {
  yield entry;
  await new Promise(() => {});
}

/** Of objects only the given fields are compared. */
function checkPart(actual: unknown, expected: unknown, where: string): void {
  if (typeof expected !== "object" || expected === null || Array.isArray(expected)) return assert.deepEqual(actual, expected, where);
  for (const [name, value] of Object.entries(expected)) checkPart((actual as Json)?.[name], value, `${where}.${name}`);
}

function snake(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), snake(one)]));
}

/** Snake case and seconds to camel case and milliseconds. */
function limitsOf(limits: Json): Partial<Limits> {
  const isTime = (name: string): boolean => /_(interval|time|timeout|retry|after)$/.test(name);
  const entries = Object.entries(limits).map(([name, value]) => [
    name.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase()),
    isTime(name) ? value * 1_000 : value,
  ]);
  return Object.fromEntries(entries) as Partial<Limits>;
}

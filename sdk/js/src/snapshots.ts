import type { Clock } from "./clock.js";
import type { Guilds } from "./guilds.js";
import type { Limits } from "./limits.js";
import type { Roster } from "./roster.js";
import type { Status } from "./status.js";
import { type World, shardOf } from "./world.js";

/**
 * Stale: has to be sent as a whole. Sending: its snapshot is in progress, and changes are marked. Replaced: it belongs to a process that
 * started later. A shard that isn't here is unknown.
 */
type ShardState = "stale" | "sending" | "sent" | "replaced";

/** The process's own shards, and the lines of their snapshots. */
export class Snapshots {
  readonly #world: World;
  readonly #roster: Roster;
  readonly #guilds: Guilds;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #shards = new Map<number, ShardState>();
  #count = 0;
  /** Guilds whose line was refused: first sent as unavailable, then left out, until they change. */
  readonly #refused = new Map<string, "unavailable" | "left out">();
  /** The guilds of the snapshot in progress, in the order of its lines. */
  #written: string[] = [];
  /** Those of them whose staff it includes. */
  #withStaff = new Set<string>();

  constructor(world: World, roster: Roster, guilds: Guilds, clock: Clock, limits: Limits, status: Status) {
    this.#world = world;
    this.#roster = roster;
    this.#guilds = guilds;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
  }

  /** Whether the shard count has changed, in which case all shards are unknown. */
  countChanged(): boolean {
    const count = this.#world.shardCount();
    if (count === this.#count) return false;
    const isChange = this.#count !== 0;
    this.#count = count;
    this.#shards.clear();
    return isChange;
  }

  isOf(shard: number): (guild: string) => boolean {
    return (guild) => shardOf(guild, this.#count) === shard;
  }

  setStale(shard: number): void {
    this.#shards.set(shard, "stale");
  }

  setUnknown(shard: number): void {
    this.#shards.delete(shard);
  }

  allStale(): void {
    for (const shard of this.#shards.keys()) this.#shards.set(shard, "stale");
  }

  isReady(shard: number): boolean {
    return this.#shards.has(shard);
  }

  isReplaced(shard: number): boolean {
    return this.#shards.get(shard) === "replaced";
  }

  get hasReplaced(): boolean {
    return [...this.#shards.values()].includes("replaced");
  }

  get hasReady(): boolean {
    return this.#shards.size > 0;
  }

  get ready(): number[] {
    return [...this.#shards.keys()];
  }

  /** Whether the guild belongs to one of this process's shards. */
  isOwn(guild: string): boolean {
    const shard = shardOf(guild, this.#world.shardCount());
    return this.#world.shards().some(({ id }) => id === shard);
  }

  /** Whether to send changes of this guild. If its shard is unknown, stale or replaced, its next snapshot will include them. */
  marks(guild: string): boolean {
    const state = this.#shards.get(shardOf(guild, this.#count));
    return state === "sending" || state === "sent";
  }

  lowestStale(): number | null {
    let lowest: number | null = null;
    for (const [shard, state] of this.#shards) if (state === "stale" && (lowest === null || shard < lowest)) lowest = shard;
    return lowest;
  }

  /** Whether every shard of the process has been sent. */
  get areSent(): boolean {
    const own = this.#world.shards();
    return own.length > 0 && own.every(({ id }) => this.#shards.get(id) === "sent");
  }

  path(shard: number): string {
    return `/bot/shards/${this.#count}/${shard}/guilds`;
  }

  /** Begins a snapshot: returns its lines, one at a time. From now on, changes of the shard are marked. */
  begin(shard: number): AsyncGenerator<string[]> {
    this.#shards.set(shard, "sending");
    this.#written = [];
    this.#withStaff = new Set();
    return this.#lines(this.#roster.guildIds(shard), this.#written);
  }

  /** Whether the snapshot includes this guild's staff. */
  hasStaff(guild: string): boolean {
    return this.#withStaff.has(guild);
  }

  async *#lines(ids: string[], written: string[]): AsyncGenerator<string[]> {
    const { callbacksAtOnce } = this.#limits;
    const pending: Promise<string | null>[] = [];
    for (let next = 0, index = 0; index < ids.length; index += 1) {
      while (next < ids.length && pending.length < callbacksAtOnce) {
        const line = this.#line(ids[next++] as string);
        // A rejection is handled below, perhaps only after others.
        line.catch(() => {});
        pending.push(line);
      }
      const line = await pending.shift();
      if (line) {
        written.push(ids[index] as string);
        yield [line];
      }
      if ((index + 1) % callbacksAtOnce === 0) await this.#clock.breathe();
    }
    yield [`{"end":${written.length}}`];
  }

  /** The snapshot was acknowledged. Returns how many guilds it had. */
  acknowledged(shard: number): number {
    if (this.#shards.get(shard) === "sending") this.#shards.set(shard, "sent");
    return this.#written.length;
  }

  /** The snapshot wasn't accepted: the shard is still stale, unless it has started over. */
  failed(shard: number): void {
    if (this.#shards.get(shard) === "sending") this.#shards.set(shard, "stale");
  }

  /** How many guilds the snapshot has. */
  get size(): number {
    return this.#written.length;
  }

  /** These shards of a response belong to another process now. Returns those of this process. */
  replaced(listed: unknown): number[] {
    const replaced = this.#listed(listed);
    for (const shard of replaced) this.#shards.set(shard, "replaced");
    return replaced;
  }

  /** The owner of these shards has left: this process sends its own again, and they are returned. */
  free(listed: unknown): number[] {
    const free = this.#listed(listed).filter((shard) => this.#shards.get(shard) !== "stale");
    for (const shard of free) this.#shards.set(shard, "stale");
    return free;
  }

  /** The ready shards in a response's list. */
  #listed(listed: unknown): number[] {
    const entries = (Array.isArray(listed) ? listed : []) as ({ shard_count?: unknown; shard_id?: unknown } | null)[];
    return this.ready.filter((shard) => entries.some((entry) => entry?.shard_count === this.#count && entry.shard_id === shard));
  }

  /** The service refused a line of the snapshot, counted from 0. */
  refuse(line: number, reason: string): void {
    const guild = this.#written[line] as string;
    const isAgain = this.#refused.has(guild);
    this.#refused.set(guild, isAgain ? "left out" : "unavailable");
    this.#status.counters.linesRefused += 1;
    if (!isAgain) this.#status.warn(`the service refuses guild ${guild}, which stays as it was until it changes: ${reason}`);
  }

  /** The guild has changed, so its line may be accepted now. */
  guildChanged(guild: string): void {
    this.#refused.delete(guild);
  }

  async #line(id: string): Promise<string | null> {
    const refused = this.#refused.get(id);
    if (refused === "left out") return null;
    const unavailable = JSON.stringify({ id, unavailable: true });
    if (refused) return unavailable;
    const line = await this.#guilds.snapshotLine(id);
    if (line === null) return null;
    const text = JSON.stringify(line);
    const { lineBytes } = this.#limits;
    if (text.length < lineBytes / 4 || Buffer.byteLength(text) < lineBytes) {
      if ("staff" in line) this.#withStaff.add(id);
      return text;
    }
    this.#status.warnOnce(`guild ${id} too long`, `guild ${id} is too long and stays as it was until it changes: more than ${lineBytes} bytes`);
    return unavailable;
  }
}

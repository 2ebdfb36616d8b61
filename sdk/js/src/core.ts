import { Batches } from "./batch.js";
import { Budget } from "./budget.js";
import { Callbacks, type Handlers } from "./callbacks.js";
import { Calls } from "./calls.js";
import type { Clock } from "./clock.js";
import { type Delivery, Feedback } from "./feedback.js";
import { Guilds } from "./guilds.js";
import { Heartbeat } from "./heartbeat.js";
import { DEFAULT_LIMITS, type Limits } from "./limits.js";
import { Listings } from "./listings.js";
import { type ListName, Lists } from "./lists.js";
import { type GuildChange, Marks } from "./marks.js";
import { Roster } from "./roster.js";
import { Sender } from "./sender.js";
import { Snapshots } from "./snapshots.js";
import { Spool } from "./spool.js";
import { Staff } from "./staff.js";
import { type State, Status, type StatusReport, counted } from "./status.js";
import type { Transport } from "./transport.js";
import type { Id } from "./types.js";
import type { World } from "./world.js";

export interface CoreOptions {
  world: World;
  handlers: Handlers;
  transport: Transport;
  /** The service's address, for the log. */
  url: string;
  clock: Clock;
  status: Status;
  instance: string;
  limits?: Partial<Limits> | undefined;
  /** The file of waiting feedback. */
  spool?: string | undefined;
}

/**
 * The feed's state machine. It doesn't depend on a bot library: an adapter calls it for each event, and it reads the
 * rest from the `World`. `sdk/conformance` describes its behaviour.
 */
export class Core {
  readonly #world: World;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #instance: string;
  readonly #url: string;
  readonly #calls: Calls;
  readonly #roster: Roster;
  readonly #marks: Marks;
  readonly #budget: Budget;
  readonly #listings: Listings;
  readonly #staff: Staff;
  readonly #callbacks: Callbacks;
  readonly #lists: Lists;
  readonly #feedback: Feedback;
  readonly #snapshots: Snapshots;
  readonly #heartbeat: Heartbeat;
  readonly #sender: Sender;
  #cancelRefresh = (): void => {};
  #wasReady = false;
  #wasConnected = false;
  /** Guilds with an event that was lost to a bug, to be sent with the next refresh; null stands for all. */
  #missed = new Set<string | null>();
  #hasSentAgain = false;
  #isClosing = false;
  #isClosed = false;

  constructor({ world, handlers, transport, url, clock, status, instance, limits: given, spool }: CoreOptions) {
    const limits = { ...DEFAULT_LIMITS, ...given };
    this.#world = world;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#instance = instance;
    this.#url = url;
    this.#calls = new Calls(transport, clock, status, limits, () => this.#sender.doubt());
    this.#roster = new Roster(world);
    this.#marks = new Marks(clock, limits);
    this.#budget = new Budget(world, clock, limits);
    this.#listings = new Listings(world, this.#roster, clock, limits, status, this.#budget, (guild) => this.#mark(guild, "whole"));
    this.#staff = new Staff(world, clock, status, (guild) => this.#listings.request(guild));
    this.#listings.staff = this.#staff;
    this.#callbacks = new Callbacks(handlers, clock, limits, status, (guild) => this.#askAgain(guild));
    this.#lists = new Lists(this.#callbacks, clock, limits, status, (list) => this.#listChanged(list));
    this.#feedback = new Feedback(limits, status, spool ? Spool.open(spool, clock, status) : null);
    const guilds = new Guilds(this.#roster, this.#callbacks, this.#staff, this.#marks);
    this.#snapshots = new Snapshots(world, this.#roster, guilds, clock, limits, status);
    this.#heartbeat = new Heartbeat(world, this.#calls, clock, limits, status, instance, () => this.#heartbeatArrived());
    const batches = new Batches(this.#marks, this.#feedback, this.#lists, guilds, clock, limits, status, (guild) => this.#miss(guild));
    const parts = {
      marks: this.#marks, snapshots: this.#snapshots, lists: this.#lists, feedback: this.#feedback, batches, heartbeat: this.#heartbeat,
      calls: this.#calls,
    };
    this.#sender = new Sender(parts, clock, limits, status, instance, { snapshotSent: () => this.#snapshotSent(), synced: () => this.#synced() });
  }

  start(): void {
    this.#heartbeat.start();
    this.#cancelRefresh = this.#clock.after(this.#limits.refreshInterval, () => this.#refresh());
    if (this.#feedback.waiting > 0) this.#sender.changed();
  }

  // --- events from the bot

  /** Handles an event of this guild, or of an unknown one. It never throws. */
  hear(guild: string | null, handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.#status.fault(error);
      this.#miss(guild);
    }
  }

  /** A new session (READY), and the guilds that Discord listed: earlier events may have been missed. */
  session(shard: number, guilds: Iterable<string> | null): void {
    if (this.#isClosing) return;
    this.#checkCount();
    this.#roster.session(shard, guilds);
    const isOfShard = this.#snapshots.isOf(shard);
    this.#heartbeat.shardKnown();
    this.#snapshots.setUnknown(shard);
    this.#marks.drop(isOfShard);
    this.#staff.doubt(isOfShard);
    this.#listings.newSession(isOfShard);
  }

  /** All guilds of the shard have arrived. */
  ready(shard: number): void {
    if (this.#isClosing) return;
    this.#checkCount();
    this.#wasReady = true;
    this.#heartbeat.shardKnown();
    this.#heartbeat.shardReady();
    this.#snapshots.setStale(shard);
    if (shard === 0) this.#lists.forget();
    this.#sender.wake(0);
  }

  /** Joined, or available again. */
  guildHere(guild: string): void {
    this.#roster.here(guild);
    this.#mark(guild, "whole");
  }

  guildGone(guild: string): void {
    this.#roster.gone(guild);
    this.#callbacks.forget(guild);
    this.#staff.forget(guild);
    this.#listings.forget((one) => one === guild);
    this.#mark(guild, "gone");
  }

  /** An outage: events about its members are missed. */
  guildUnavailable(guild: string): void {
    this.#roster.here(guild);
    this.#staff.doubt((one) => one === guild);
    this.#listings.forget((one) => one === guild);
  }

  /** Its own fields have changed. */
  guildChanged(guild: string): void {
    this.#mark(guild, "fields");
  }

  /** A role was created or changed. */
  roleChanged(guild: string): void {
    this.#mark(guild, "ask");
  }

  roleGone(guild: string, role: string): void {
    this.#mark(guild, this.#staff.roleGone(guild, role) ? "whole" : "ask");
  }

  member(guild: string, user: string, roles: Iterable<string>): void {
    if (this.#isClosing) return;
    const all = [...roles];
    const isNews = this.#staff.member(guild, user, all);
    // Replaces whatever is waiting for the same member, even with something that the service already knows.
    const isMarked = isNews && this.#snapshots.marks(guild);
    if (isMarked || this.#marks.hasMember(guild, user)) this.#markMember(guild, user, all);
  }

  memberJoined(guild: string, user: string, roles: Iterable<string>): void {
    this.member(guild, user, roles);
    this.#memberCount(guild);
  }

  memberGone(guild: string, user: string): void {
    if (this.#isClosing) return;
    this.#staff.memberGone(guild, user);
    // Also for a stale shard: its snapshot may go without staff, and then doesn't include this.
    if (this.#snapshots.isOwn(guild)) this.#markMember(guild, user, null);
    this.#memberCount(guild);
  }

  /** The library's cache may now have all of the guild's members. */
  membersCached(guild: string): void {
    if (this.#staff.isUnknown(guild) && this.#world.cachedMembers(guild)) this.#mark(guild, "whole");
  }

  /** Discord answered one of the bot's requests with 429 and asked to wait this many milliseconds. */
  limited(ms: number): void {
    this.#budget.limited(ms);
  }

  // --- calls from the bot

  /** The callbacks' answers for this guild have changed. */
  changed(guild: string): void {
    this.#mark(guild, "whole");
  }

  /** Everything may have changed. */
  allChanged(): void {
    if (!this.#isClosing) this.#sender.resync();
  }

  subscriptionsChanged(): void {
    this.#listChanged("subscriptions");
  }

  teamChanged(): void {
    this.#listChanged("team");
  }

  feedback(entry: { timestamp?: number | null }): Promise<Delivery> {
    return this.#addFeedback("feedback", { ...entry, timestamp: entry.timestamp ?? Math.floor(this.#clock.now() / 1_000) });
  }

  feedbackGone(id: Id): Promise<Delivery> {
    return this.#addFeedback("feedback_gone", { id });
  }

  status(): StatusReport {
    const ready = this.#snapshots.ready;
    return {
      state: this.#state(),
      instance: this.#instance,
      guilds: ready.reduce((sum, shard) => sum + this.#roster.guildIds(shard).length, 0),
      shards: ready.length,
      staff: this.#staff.count,
      waiting: { changes: this.#marks.waiting, feedback: this.#feedback.waiting, batch: this.#sender.batchLines },
      lastError: this.#status.lastError,
      counters: { ...this.#status.counters },
    };
  }

  /** Sends what is waiting, within a time limit, then stops. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#heartbeat.stop();
    this.#cancelRefresh();
    this.#callbacks.close();
    this.#lists.close();
    this.#listings.close();
    let cancel = (): void => {};
    const overdue = new Promise<void>((resolve) => {
      cancel = this.#clock.after(this.#limits.closeTimeout, resolve);
    });
    await Promise.race([overdue, this.#finish()]);
    cancel();
    if (this.#sender.hasLeft) this.#status.warn("closed before everything was sent");
    this.#isClosed = true;
    this.#calls.abort();
    this.#feedback.close();
  }

  // --- internals

  /** Sends what is waiting, then says goodbye, so that another process can take over immediately. */
  async #finish(): Promise<void> {
    await this.#sender.close();
    if (this.#isClosed) return;
    await this.#heartbeat.leave().catch((error: unknown) => this.#status.fault(error));
  }

  #mark(guild: string, change: GuildChange): void {
    if (this.#isClosing) return;
    this.#snapshots.guildChanged(guild);
    if (this.#snapshots.marks(guild)) this.#marked(this.#marks.guild(guild, change));
  }

  #markMember(guild: string, user: string, roles: string[] | null): void {
    const canBeSent = this.#snapshots.marks(guild);
    this.#marked(canBeSent ? this.#marks.member(guild, user, roles) : this.#marks.holdMember(guild, user, roles));
  }

  #marked(hadRoom: boolean): void {
    if (hadRoom) return this.#sender.changed();
    this.#status.warnOnce("changes", `too many changes are waiting: more than ${this.#limits.changes}, so all guilds are sent again instead`);
    this.#marks.clear();
    this.#sender.resync();
  }

  #memberCount(guild: string): void {
    if (this.#isClosing || !this.#snapshots.marks(guild)) return;
    this.#snapshots.guildChanged(guild);
    const ms = this.#marks.memberCount(guild);
    this.#sender.wake(Math.max(ms, this.#limits.gatherTime));
  }

  /** False while there is no room: a retried callback must not cause everything to be sent again. */
  #askAgain(guild: string): boolean {
    if (this.#marks.waiting > this.#limits.changes / 2) return false;
    this.#mark(guild, "ask");
    return true;
  }

  #addFeedback(type: "feedback" | "feedback_gone", value: object): Promise<Delivery> {
    if (this.#isClosing) return Promise.resolve({ delivered: false, reason: "closed" });
    const result = this.#feedback.add(type, value);
    if (this.#feedback.waiting > 0) this.#sender.changed();
    return result;
  }

  #listChanged(list: ListName): void {
    // When shard 0 becomes ready, or is free again, both are sent anyway.
    if (this.#isClosing || !this.#maySendLists()) return;
    this.#lists.isStale[list] = true;
    this.#sender.wake(0);
  }

  /** Subscriptions and team come from the process with shard 0. */
  #maySendLists(): boolean {
    return this.#snapshots.isReady(0) && !this.#snapshots.isReplaced(0);
  }

  #heartbeatArrived(): void {
    this.#sender.introduced();
    // Asks whether the process that owns some of the shards is still there.
    if (this.#snapshots.hasReplaced) this.#sender.doubt();
  }

  #refresh(): void {
    this.#cancelRefresh = this.#clock.after(this.#limits.refreshInterval, () => this.#refresh());
    if (this.#maySendLists()) this.#lists.look();
    this.#hasSentAgain = false;
    if (this.#missed.size > 0) this.#sendMissed();
    this.#sender.doubt();
  }

  /**
   * An event was lost to a bug: the guild's shard is sent again, or every shard. The first time, that happens immediately,
   * and then only with each refresh, because the bug may hit every event.
   */
  #miss(guild: string | null): void {
    if (this.#isClosing) return;
    this.#missed.add(guild);
    if (!this.#hasSentAgain) this.#sendMissed();
  }

  #sendMissed(): void {
    const missed = this.#missed;
    this.#missed = new Set();
    this.#hasSentAgain = true;
    const isMissed = (guild: string): boolean => missed.has(null) || missed.has(guild);
    this.#staff.doubt(isMissed);
    this.#listings.forget(isMissed);
    for (const shard of this.#snapshots.ready) {
      const isOfShard = this.#snapshots.isOf(shard);
      if ([...missed].some((guild) => guild === null || isOfShard(guild))) this.#snapshots.setStale(shard);
    }
    this.#sender.wake(0);
  }

  #checkCount(): void {
    if (!this.#snapshots.countChanged()) return;
    this.#marks.clear();
    this.#roster.forget();
  }

  #snapshotSent(): void {
    if (this.#wasConnected || !this.#snapshots.areSent) return;
    this.#wasConnected = true;
    const { guilds, shards, staff } = this.status();
    const name = this.#world.name();
    const counts = `${counted(guilds, "guild")}, ${counted(shards, "shard")}, ${staff} staff`;
    const why = this.#callbacks.hasGrants ? "" : " (no `grants` callback)";
    this.#status.info(`connected to ${this.#url}${name ? ` as ${name}` : ""}: ${counts}${why}`);
  }

  #synced(): void {
    if (!this.#isClosing && this.#snapshots.areSent) this.#status.emit("synced");
  }

  #state(): State {
    if (this.#isClosed) return "closed";
    if (this.#calls.isDown) return "unreachable";
    if (!this.#wasReady) return "starting";
    if (this.#snapshots.hasReplaced) return "replaced";
    return this.#snapshots.areSent && !this.#sender.hasLeft ? "synced" : "syncing";
  }
}

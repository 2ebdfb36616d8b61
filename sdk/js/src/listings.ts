import type { Budget } from "./budget.js";
import { type Clock, within } from "./clock.js";
import type { Limits } from "./limits.js";
import type { Roster } from "./roster.js";
import type { Staff, Survey } from "./staff.js";
import { type Status, reasonOf } from "./status.js";
import { PAGE, type World, compareIds } from "./world.js";

const LONGEST_RETRY = 300_000;

/** Lists the members of guilds whose staff is unknown: one guild at a time, page by page. */
export class Listings {
  readonly #world: World;
  readonly #roster: Roster;
  readonly #clock: Clock;
  readonly #limits: Limits;
  readonly #status: Status;
  readonly #budget: Budget;
  readonly #listed: (guild: string) => void;
  readonly #queue = new Set<string>();
  /** Guilds whose listing failed: how often in a row, and the timer of the next try. */
  readonly #failed = new Map<string, { times: number; cancel: () => void }>();
  #underWay: { guild: string; abort: AbortController } | null = null;
  #isRunning = false;
  /** No listings until the next session: if Discord refuses one guild, it refuses all. */
  #isBlocked = false;
  #isClosed = false;
  staff!: Staff;

  /** `listed` is called when the guild's staff is completely known. */
  constructor(world: World, roster: Roster, clock: Clock, limits: Limits, status: Status, budget: Budget, listed: (guild: string) => void) {
    this.#world = world;
    this.#roster = roster;
    this.#clock = clock;
    this.#limits = limits;
    this.#status = status;
    this.#budget = budget;
    this.#listed = listed;
  }

  request(guild: string): void {
    if (this.#isClosed || this.#isBlocked || this.#underWay?.guild === guild) return;
    if (this.#failed.get(guild)?.times) return;
    const obstacle = this.#world.listingObstacle();
    if (obstacle !== null) {
      this.#isBlocked = true;
      this.#status.warnOnce("listing obstacle", obstacle);
      return;
    }
    this.#queue.add(guild);
    this.#start();
  }

  /** A new session: a refused listing may be allowed now, and these guilds' listings are forgotten. */
  newSession(isOfShard: (guild: string) => boolean): void {
    this.#isBlocked = false;
    this.forget(isOfShard);
  }

  forget(isForgotten: (guild: string) => boolean): void {
    for (const guild of [...this.#queue, ...this.#failed.keys()].filter(isForgotten)) {
      this.#queue.delete(guild);
      this.#failed.get(guild)?.cancel();
      this.#failed.delete(guild);
    }
    if (!this.#underWay || !isForgotten(this.#underWay.guild)) return;
    this.#underWay.abort.abort();
    this.#underWay = null;
  }

  close(): void {
    this.#isClosed = true;
    this.#queue.clear();
    for (const { cancel } of this.#failed.values()) cancel();
    this.#failed.clear();
    this.#underWay?.abort.abort();
    this.#budget.close();
  }

  #start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#run()
      .catch((error: unknown) => this.#status.fault(error))
      .finally(() => {
        this.#isRunning = false;
        if (this.#queue.size > 0) this.#start();
      });
  }

  async #run(): Promise<void> {
    while (this.#queue.size > 0) {
      await this.#budget.turn();
      const [guild] = this.#queue;
      if (guild === undefined) return;
      this.#queue.delete(guild);
      const fields = this.#roster.guild(guild);
      const survey = fields === null || fields === "unavailable" ? null : this.staff.beginSurvey(guild);
      if (!survey) continue;
      await this.#list(guild, survey);
    }
  }

  async #list(guild: string, survey: Survey): Promise<void> {
    const abort = new AbortController();
    this.#underWay = { guild, abort };
    try {
      await this.#pages(guild, survey, abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) this.#fail(guild, error);
      return;
    } finally {
      if (this.#underWay?.abort === abort) this.#underWay = null;
      // Stops waiting for a page that took too long.
      abort.abort();
    }
    const outcome = this.staff.endSurvey(guild, survey);
    if (outcome === "dropped") return;
    this.#status.counters.listings += 1;
    this.#failed.delete(guild);
    this.#status.forget("listing");
    if (outcome === "again") this.request(guild);
    else this.#listed(guild);
  }

  async #pages(guild: string, survey: Survey, signal: AbortSignal): Promise<void> {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(new Error("not needed any more")), { once: true });
    });
    aborted.catch(() => {});
    for (let after = "0"; ; ) {
      await Promise.race([aborted, this.#budget.turn()]);
      this.#budget.spend();
      const asked = within(this.#clock, this.#limits.stallTimeout, this.#world.listMembers(guild, after, signal));
      const page = await Promise.race([aborted, asked.catch(nothingIfLimited)]);
      if (!page) continue;
      for (const member of page) {
        survey.add(member);
        if (compareIds(member.id, after) > 0) after = member.id;
      }
      if (page.length < PAGE) return;
    }
  }

  #fail(guild: string, error: unknown): void {
    this.#status.counters.listingFailures += 1;
    const { status } = error as { status?: unknown };
    const hint = `the client needs the intent ${this.#world.membersIntent}, which must also be turned on in Discord's developer portal`;
    if (status === 401 || status === 403) {
      // Too many refused requests get the bot's address banned.
      this.#isBlocked = true;
      this.#queue.clear();
      for (const { cancel } of this.#failed.values()) cancel();
      this.#failed.clear();
      this.#status.warnOnce("listing refused", `the members of guild ${guild} cannot be listed, and the service keeps its staff as it is: ${hint} (${reasonOf(error)})`);
      return;
    }
    const times = (this.#failed.get(guild)?.times ?? 0) + 1;
    const delay = Math.min(LONGEST_RETRY, this.#limits.listingRetry * 2 ** Math.min(times - 1, 30));
    const cancel = this.#clock.after(delay, () => {
      this.#queue.add(guild);
      this.#start();
    });
    this.#failed.set(guild, { times, cancel });
    this.#status.warnOnce("listing", `the members of guild ${guild} cannot be listed, and the service keeps its staff as it is; retrying: ${reasonOf(error)}; ${hint}`);
  }
}

/** A page that Discord rate limited hasn't failed: it's requested again. */
function nothingIfLimited(error: unknown): null {
  if ((error as { status?: unknown } | null)?.status === 429) return null;
  throw error;
}

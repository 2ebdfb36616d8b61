// Listings of members leave Discord's rate limit to the bot: the budget by itself, and real discord.js on a Discord that counts.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Client } from "discord.js";
import { Budget } from "../src/budget.js";
import { DEFAULT_LIMITS } from "../src/limits.js";
import type { World } from "../src/world.js";
import { bots, guild, skip } from "./bots.js";
import { SimulatedClock } from "./clock.js";
import type { FakeDiscord } from "./processes.js";
import { type Json, guildId, until } from "./support.js";

const grants = (): Json => ({ 50: ["MOD"] });

/** A process that requests pages endlessly, and when each request started. */
function pages(own: number[], count: number, limits = {}) {
  const clock = new SimulatedClock(0);
  const world = { shards: () => own.map((id) => ({ id })), shardCount: () => count };
  const budget = new Budget(world as unknown as World, clock, { ...DEFAULT_LIMITS, ...limits });
  const began: number[] = [];
  let isDone = false;
  const run = async (): Promise<void> => {
    for (;;) {
      await budget.turn();
      if (isDone) return;
      budget.spend();
      began.push(clock.now());
    }
  };
  const running = run();
  const end = (): Promise<void> => {
    isDone = true;
    budget.close();
    return running;
  };
  return { clock, budget, began, end };
}

test("a process takes the share of its shards, as they are when a page begins", async () => {
  const own = [0];
  const { clock, began, end } = pages(own, 2);
  await clock.pass(400);
  assert.deepEqual(began, [0, 200, 400]);
  own.push(1);
  await clock.pass(400);
  assert.deepEqual(began.slice(3), [600, 700, 800]);
  own.length = 0;
  await clock.pass(100);
  assert.deepEqual(began.slice(6), [900], "a client without shards, or with more than there are, neither stops it nor speeds it up");
  await end();
  assert.equal(clock.timers, 0);
});

test("a limit holds all pages back, halves the rate once, and is forgotten a minute after its end", async () => {
  const { clock, budget, began, end } = pages([0], 1);
  await clock.pass(0);
  budget.limited(1_000);
  budget.limited(500);
  await clock.pass(500);
  budget.limited(2_000);
  await clock.pass(2_400);
  assert.deepEqual(began, [0, 2_500, 2_700, 2_900], "prolonged once, and then half as often");
  assert.equal(budget.slowness, 2);
  await clock.pass(59_500);
  assert.equal(budget.slowness, 2);
  await clock.pass(100);
  assert.equal(budget.slowness, 1);
  await end();
});

test("a limit is cut to the longest wait, and nonsense is none", async () => {
  const { clock, budget, began, end } = pages([0], 1, { longestRetryAfter: 1_000 });
  await clock.pass(0);
  budget.limited(86_400_000);
  await clock.pass(1_000);
  assert.deepEqual(began, [0, 1_000]);
  budget.limited(-5);
  await clock.pass(400);
  assert.equal(began.length, 3);
  await end();
});

/** What the fake Discord answered to requests for members. */
async function statuses(fake: FakeDiscord): Promise<number[]> {
  const { entries } = (await (await fetch(`${fake.control}/log?since=0`)).json()) as { entries: Json[] };
  return entries.filter(({ what, event }) => /^GET \/guilds\/\d+\/members$/.test(what ?? event ?? "")).map(({ status }) => status as number);
}

/** Every limit that a budget is told about, and its pace afterwards. */
function heard(context: TestContext): { ms: number; slowness: number }[] {
  const limits: { ms: number; slowness: number }[] = [];
  const { limited } = Budget.prototype;
  context.mock.method(Budget.prototype, "limited", function (this: Budget, ms: number) {
    limited.call(this, ms);
    limits.push({ ms, slowness: this.slowness });
  });
  return limits;
}

test("two processes list many guilds, and Discord need not limit the bot once", { skip }, async (context) => {
  const limits = heard(context);
  const guilds = Array.from({ length: 80 }, (_, index) => guild(index + 1));
  // Each client has a REST client of its own, as in two processes: neither knows what the other asks for.
  const { fake, service, started, stop } = await bots({ shards: 2, guilds }, [{ shards: [0], shardCount: 2 }, { shards: [1], shardCount: 2 }], { grants });
  try {
    await until("all staff", () => guilds.every((_, index) => service.guilds.get(guildId(index + 1))?.["staff"]?.["10"]));
    const answers = await statuses(fake);
    assert.equal(answers.filter((status) => status === 429).length, 0);
    assert.equal(answers.length, 80);
    assert.deepEqual(limits, []);
    assert.equal(started.reduce((sum, { companion }) => sum + companion.status().counters.listings, 0), 80);
  } finally {
    await stop();
  }
});

for (const scope of ["user", "global", "shared", "edge"]) {
  test(`a page that Discord limits (${scope}) is asked for again, and the budget hears of it`, { skip }, async (context) => {
    const limits = heard(context);
    const { fake, service, companion, log, stop } = await bots({ guilds: [guild(1), guild(2)] }, [{}], { grants }, (_, discord) =>
      discord.fault("GET /guilds/{id}/members", "rate_limit", { retry_after: 1, scope, times: 1 }));
    try {
      await until("all staff", () => [1, 2].every((n) => service.guilds.get(guildId(n))?.["staff"]?.["10"]));
      assert.deepEqual((await statuses(fake)).sort(), [200, 200, 429]);
      assert.deepEqual(limits, [{ ms: 1_000, slowness: 2 }]);
      assert.equal(companion.status().counters.listings, 2);
      assert.equal(companion.status().counters.listingFailures, 0);
      assert.equal(log.count("cannot be listed"), 0);
    } finally {
      await stop();
    }
  });
}

test("a limit of the bot's own request is heard, too; a bot that rejects limits gets its page again", { skip }, async (context) => {
  const limits = heard(context);
  const rest = { rejectOnRateLimit: () => true };
  const { fake, service, companion, started, stop } = await bots({ guilds: [guild(1)] }, [{ rest }], { grants }, (_, discord) =>
    discord.fault("GET /guilds/{id}/members", "rate_limit", { retry_after: 1, times: 1 }));
  try {
    await until("staff", () => service.guilds.get(guildId(1))?.["staff"]?.["10"]);
    assert.equal(companion.status().counters.listingFailures, 0);
    const before = limits.length;
    await fake.fault("GET /users/@me", "rate_limit", { retry_after: 7, times: 1 });
    await assert.rejects((started[0]?.client as Client).rest.get("/users/@me"), /RateLimitError|rate limit/i);
    assert.deepEqual(limits.slice(before).map(({ ms }) => ms), [7_000]);
    await companion.close();
    assert.equal((started[0]?.client as Client).rest.listenerCount("response"), 0);
  } finally {
    await stop();
  }
});

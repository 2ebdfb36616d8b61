// Staff is never wrong: real discord.js on a Discord that fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, GatewayIntentBits } from "discord.js";
import { bots, guild, skip } from "./bots.js";
import { type Json, type Service, guildId, until } from "./support.js";

const GUILD = guildId(1);
const grants = (): Json => ({ 50: ["MOD"] });
/** Who was staff when the bot last ran: 10 still is, 12 is not any more. */
const BEFORE = { 10: ["50"], 12: ["50"] };

function withStaff(service: Service): void {
  service.guilds.set(GUILD, { id: GUILD, name: "Before", grants: grants(), staff: { ...BEFORE } });
}

function staffOf(service: Service): Json {
  return service.guilds.get(GUILD)?.["staff"] ?? {};
}

for (const [what, fault] of [
  ["fails", { do: "status", status: 500 }],
  ["is cut", { do: "cut" }],
] as const) {
  test(`a listing of members that ${what}: nobody loses a role, and it heals`, { skip }, async () => {
    const { fake, service, log, companion, started, stop } = await bots({ guilds: [guild(1)] }, [{ rest: { retries: 0 } }], { grants }, async (empty, discord) => {
      withStaff(empty);
      await discord.fault("GET /guilds/{id}/members", fault.do, fault);
    });
    try {
      await until("the guild's other fields", () => service.guilds.get(GUILD)?.["name"] === "Guild 1");
      await until("it has failed more than once", () => {
        assert.deepEqual(staffOf(service), BEFORE);
        return companion.status().counters.listingFailures >= 3;
      });
      assert.equal(log.count(`the members of guild ${GUILD} cannot be listed`), 1);
      assert.equal(log.count("GuildMembers"), 1, "the intent is named");
      await fake.clearFaults();
      await until("the staff of today", () => staffOf(service)["12"] === undefined);
      assert.deepEqual(staffOf(service), { 10: ["50"] });
      assert.ok(companion.status().counters.listingFailures >= 2);
      assert.equal((started[0]?.client as Client).users.cache.has("11"), false, "the library's caches are not filled");
    } finally {
      await stop();
    }
  });
}

test("a listing that is refused is said once, and not tried again and again", { skip }, async () => {
  const { service, log, companion, stop } = await bots({ guilds: [guild(1), guild(2)] }, [{ rest: { retries: 0 } }], { grants }, async (empty, discord) => {
    withStaff(empty);
    await discord.fault("GET /guilds/{id}/members", "status", { status: 403 });
  });
  try {
    await until("the guilds", () => service.guilds.size === 2 && service.guilds.get(GUILD)?.["name"] === "Guild 1");
    await until("it is said", () => log.count("cannot be listed") > 0);
    assert.deepEqual(staffOf(service), BEFORE);
    assert.equal(companion.status().counters.listingFailures, 1);
    assert.equal(log.count("intent GuildMembers"), 1);
  } finally {
    await stop();
  }
});

test("without the intent a cache cannot be trusted: staff is not sent, and the log names the intent", { skip }, async () => {
  const intents = [GatewayIntentBits.Guilds];
  const { fake, service, log, stop } = await bots({ guilds: [guild(1)] }, [{ intents }], { grants }, withStaff);
  try {
    await until("the guild", () => service.guilds.get(GUILD)?.["name"] === "Guild 1");
    await until("it is said", () => log.count("the client lacks the intent GuildMembers") === 1);
    assert.deepEqual(staffOf(service), BEFORE);
    await fake.emit("GUILD_UPDATE", { id: GUILD, name: "Renamed" });
    await until("the name", () => service.guilds.get(GUILD)?.["name"] === "Renamed");
    assert.deepEqual(staffOf(service), BEFORE);
    const { requests } = (await (await fetch(`${fake.control}/stats`)).json()) as Json;
    assert.equal(Object.keys(requests).some((request) => request.endsWith("/members")), false, "nobody was listed");
  } finally {
    await stop();
  }
});

test('members: "cache" sends staff only when the cache has every member', { skip }, async () => {
  const { service, log, started, stop } = await bots({ guilds: [guild(1)] }, [{}], { grants, members: "cache" }, withStaff);
  try {
    await until("the guild", () => service.guilds.get(GUILD)?.["name"] === "Guild 1");
    await until("it is said", () => log.count('the option members is "cache"') === 1);
    assert.deepEqual(staffOf(service), BEFORE);
    await (started[0]?.client as Client).guilds.cache.get(GUILD)?.members.fetch();
    await until("the staff of today", () => staffOf(service)["12"] === undefined);
    assert.deepEqual(staffOf(service), { 10: ["50"] });
  } finally {
    await stop();
  }
});

test("a role that is created or renamed is noticed, if it changes what the callbacks say", { skip }, async () => {
  const byName = ({ roles }: { roles: { cache: { filter(f: (role: Json) => boolean): Map<string, Json> } } }): Json =>
    Object.fromEntries([...roles.cache.filter((role) => role["name"] === "Moderators").keys()].map((id) => [id, ["MOD"]]));
  const { fake, service, stop } = await bots({ guilds: [guild(1)] }, [{}], { grants: byName });
  try {
    await until("the guild", () => service.guilds.has(GUILD));
    assert.deepEqual(service.guilds.get(GUILD)?.["grants"], {});
    await fake.emit("GUILD_ROLE_CREATE", { guild_id: GUILD, role: { id: "51", name: "Moderators" } });
    await until("created", () => service.guilds.get(GUILD)?.["grants"]["51"]);
    await fake.emit("GUILD_ROLE_UPDATE", { guild_id: GUILD, role: { id: "50", name: "Moderators" } });
    await until("renamed", () => service.guilds.get(GUILD)?.["grants"]["50"]);
    await until("its holders", () => staffOf(service)["10"]);
    await fake.emit("GUILD_ROLE_DELETE", { guild_id: GUILD, role_id: "50" });
    await until("deleted", () => !service.guilds.get(GUILD)?.["grants"]["50"] && !staffOf(service)["10"]);
  } finally {
    await stop();
  }
});

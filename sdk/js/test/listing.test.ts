// Cases of guilds and staff that the scenarios don't cover: lists with several pages, very many staff, odd names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { attach } from "../src/index.js";
import { SimulatedClock } from "./clock.js";
import { FakeClient, type Json, Log, Service, Wire, guildId } from "./support.js";

/** A bot in one guild with this many members, of whom those hold the role 50 that `isStaff` names. */
function world(members: number, isStaff: (id: number) => boolean) {
  const client = new FakeClient(1);
  Object.assign(client.guilds.cache.get(guildId(1)) as Json, { memberCount: members });
  const pages: { after: string; at: number }[] = [];
  const clock = new SimulatedClock();
  const rest = {
    async get(route: string, { query }: { query: URLSearchParams }) {
      assert.equal(route, `/guilds/${guildId(1)}/members`);
      pages.push({ after: query.get("after") ?? "", at: clock.now() });
      const from = Number(query.get("after")) + 1;
      const to = Math.min(members, from + Number(query.get("limit")) - 1);
      return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => ({ user: { id: String(from + index) }, roles: isStaff(from + index) ? ["60", "50"] : [] }));
    },
  };
  const service = new Service();
  const log = new Log();
  const companion = attach(Object.assign(client, { rest }), {
    clock, transport: new Wire(service).transport, logger: log, sigterm: false, grants: () => ({ 50: ["MOD"] }),
  });
  return { client, clock, service, log, companion, pages, staff: () => (service.guilds.get(guildId(1))?.["staff"] ?? {}) as Json };
}

test("members are listed page by page, at the budget's rate, and what is heard meanwhile counts", async () => {
  const { client, clock, pages, staff } = world(2_500, (id) => id % 500 === 0);
  client.ready();
  await clock.pass(0);
  client.emit("raw", { t: "GUILD_MEMBER_REMOVE", d: { guild_id: guildId(1), user: { id: "500" } } }, 0);
  client.emit("raw", { t: "GUILD_MEMBER_UPDATE", d: { guild_id: guildId(1), user: { id: "7" }, roles: ["50"] } }, 0);
  await clock.pass(5_000);
  assert.deepEqual(pages.map(({ after }) => after), ["0", "1000", "2000"]);
  assert.deepEqual(pages.slice(1).map(({ at }, index) => at - (pages[index]?.at ?? 0)), [100, 100]);
  assert.deepEqual(staff(), { 7: ["50"], 1000: ["50"], 1500: ["50"], 2000: ["50"], 2500: ["50"] });
});

test("a last page that is full is followed by an empty one", async () => {
  const { client, clock, pages, staff } = world(1_000, (id) => id === 1_000);
  client.ready();
  await clock.pass(5_000);
  assert.deepEqual(pages.map(({ after }) => after), ["0", "1000"]);
  assert.deepEqual(staff(), { 1000: ["50"] });
});

test("of more than 10,000 staff the rest is left out, and that is said", async () => {
  const { client, clock, log, companion, staff } = world(10_500, () => true);
  client.ready();
  await clock.pass(10_000);
  assert.equal(Object.keys(staff()).length, 10_000);
  assert.equal(log.count(`guild ${guildId(1)} has more than 10000 staff`), 1);
  assert.match(companion.status().lastError ?? "", /has more than 10000 staff/);
});

test("a name that JSON cannot carry is repaired", async () => {
  const { client, clock, service } = world(0, () => false);
  Object.assign(client.guilds.cache.get(guildId(1)) as Json, { name: `half \ud83d ${"😀".repeat(120)}` });
  client.ready();
  await clock.pass(1_000);
  const name = service.guilds.get(guildId(1))?.["name"] as string;
  assert.equal([...name].length, 100);
  assert.ok(name.startsWith("half \ufffd 😀"));
});

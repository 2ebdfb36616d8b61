// What users do from signing in to signing out, with the real service.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { type Companion, CompanionError, type CompanionOptions, type Guild, type Reading, createCompanion } from "../src/index.js";
import { createServerCompanion } from "../src/server.js";
import { Browser, Network, ORIGIN, Service, type Tab, leave, needsService, until } from "./support.js";

const service = new Service();
const open: Companion[] = [];

function companionIn(tab: Tab, network = new Network(), options: Partial<CompanionOptions> = {}): Companion {
  tab.enter();
  const companion = createCompanion({ url: service.url, fetch: network.fetch, ...options });
  open.push(companion);
  return companion;
}

async function signIn(companion: Companion, tab: Tab, person: string): Promise<void> {
  tab.enter();
  await companion.signIn();
  tab.goto(await service.choose(tab.assigned as string, person));
  assert.ok(await companion.handleCallback());
}

const code = (wanted: string) => (error: unknown) => {
  assert.ok(error instanceof CompanionError, String(error));
  assert.equal(error.code, wanted);
  return true;
};

/** Whether the session is still valid at the service. */
const isAlive = async (token: string): Promise<boolean> => (await fetch(`${service.url}/me`, { headers: { Token: token } })).ok;

describe("journeys", { skip: needsService }, () => {
  before(() => service.start());
  after(() => service.end());
  afterEach(async () => {
    for (const companion of open.splice(0)) companion.close();
    leave();
    await service.control("DELETE");
  });

  test("leaves the page's own `code` alone, with or without a `state`", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await companion.signIn();
    for (const search of ["?code=SUMMER25", "?code=SUMMER25&state=", "?code=SUMMER25&state=Ohio", "?error=sold_out&state=Ohio", `?code=x&state=${"a".repeat(43)}`]) {
      tab.goto(`${ORIGIN}/voucher${search}`);
      assert.equal(await companion.handleCallback(), null, search);
      assert.equal(tab.location.search, search);
    }
    assert.equal(network.count("POST", "/auth"), 0);
  });

  test("Cancel, Back, approve: the user is signed in", async () => {
    const tab = new Browser().tab(`${ORIGIN}/guilds/7`);
    const companion = companionIn(tab);
    await companion.signIn();
    const page = tab.assigned as string;
    tab.goto(await service.choose(page, "cancel"));
    await assert.rejects(companion.handleCallback(), (error: CompanionError) => error.code === "access_denied" && error.returnTo === "/guilds/7");
    tab.goto(await service.choose(page, "owner"));
    const signedIn = await companion.handleCallback();
    assert.equal(signedIn?.user.username, "marlow.quay");
    assert.equal(signedIn?.returnTo, "/guilds/7");
  });

  test("the provider fails, Back, approve: the user is signed in", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    await companion.signIn();
    const page = tab.assigned as string;
    await service.control("PUT", "provider-down");
    tab.goto(await service.choose(page, "owner"));
    await assert.rejects(companion.handleCallback(), code("idp_unavailable"));
    await service.control("DELETE", "provider-down");
    tab.goto(await service.choose(page, "owner"));
    assert.ok(await companion.handleCallback());
  });

  test("signing out offline stores no token, and ends the session at the service once the browser is back online", async () => {
    const browser = new Browser();
    const tab = browser.tab();
    const network = new Network();
    let isOffline = false;
    const fetch = (input: string, init?: RequestInit) => (isOffline ? Promise.reject(new TypeError("offline")) : network.fetch(input, init));
    const companion = companionIn(tab, network, { fetch });
    await signIn(companion, tab, "member");
    const { token } = companion.session() as { token: string };
    isOffline = true;
    await companion.signOut();
    assert.equal(companion.session(), null);
    assert.ok(await isAlive(token), "the session is still open at the service");
    // The next person at this computer finds nothing.
    for (const { values } of [browser.local, tab.session]) assert.ok(![...values.values()].join().includes(token));
    isOffline = false;
    tab.events.dispatchEvent(new Event("online"));
    await until("the session has ended", async () => !(await isAlive(token)));
  });

  test("two clients on one page: each completes its own sign-in", async () => {
    const tab = new Browser().tab();
    const [first, second] = [companionIn(tab), companionIn(tab, new Network(), { url: `${service.url}/other/..` })];
    await first.signIn();
    tab.goto(await service.choose(tab.assigned as string, "owner"));
    assert.equal(await second.handleCallback(), null);
    assert.ok(await first.handleCallback());
  });

  test("listeners in every tab are told why the session ended", async () => {
    const browser = new Browser();
    const tabs = [browser.tab(), browser.tab()] as const;
    const companions = tabs.map((tab) => companionIn(tab)) as [Companion, Companion];
    const heard: (string | undefined)[][] = [[], []];
    companions.forEach((companion, i) => companion.onSession((session, reason) => heard[i]?.push(session ? "in" : reason)));
    const both = (entry: string, count: number) => until(`both hear ${entry}`, () => heard.every((each) => each.length === count && each.at(-1) === entry));
    await signIn(companions[0], tabs[0], "moderator");
    await both("in", 1);
    await companions[0].signOut();
    await both("signed_out", 2);
    await signIn(companions[0], tabs[0], "moderator");
    await both("in", 3);
    await service.control("POST", "end-sessions/moderator");
    await assert.rejects(companions[1].me(), code("token_invalid"));
    await both("ended", 4);
    await signIn(companions[1], tabs[1], "moderator");
    await both("in", 5);
    await companions[1].signOutEverywhere();
    await both("signed_out", 6);
  });

  test("the age of a list", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    await signIn(companion, tab, "owner");
    const started = Date.now();
    const received: number[] = [];
    await companion.guilds({ received: (time) => received.push(time) });
    assert.equal(received.length, 1);
    assert.ok((received[0] as number) >= started - 2000);
    await service.control("PUT", "guilds-stale/owner");
    const readings: Reading<Guild[]>[] = [];
    // Also of what is made from the data.
    companion.watch("guilds", async (options) => (await companion.guilds(options)).slice(0, 1), (reading) => readings.push(reading));
    await until("a stale list", () => readings.length > 0);
    // `guilds-stale` makes the list at least 15 minutes old.
    assert.ok((readings[0]?.updatedAt as number) < Date.now() - 14 * 60_000, String(readings[0]?.updatedAt));
  });

  test("a failed callback on a server redirects to a page instead of showing a bare 500", async () => {
    const companion = createServerCompanion({ url: service.url, redirectUri: `${ORIGIN}/callback` });
    const started = await companion.signIn(new Request(`${ORIGIN}/login?returnTo=/guilds`));
    const [cookie] = started.headers.getSetCookie()[0]?.split(";") as [string];
    const page = started.headers.get("Location") as string;
    const get = async (address: string) => companion.callback(new Request(address, { headers: { Cookie: cookie } }));

    const cancelled = await get(await service.choose(page, "cancel"));
    assert.equal(cancelled.status, 303);
    assert.equal(cancelled.headers.get("Location"), "/?sign_in_error=access_denied");
    const stale = await get(`${ORIGIN}/callback?code=member&state=a-strangers`);
    assert.equal(stale.headers.get("Location"), "/?sign_in_error=state_mismatch");
    // Cancel, Back, approve.
    const approved = await get(await service.choose(page, "owner"));
    assert.equal(approved.headers.get("Location"), "/guilds");
    assert.match(approved.headers.getSetCookie().join(), /companion=bcs_/);

    // Redirects to a page of your choice, even if the service can't be reached.
    const own = createServerCompanion({ url: "http://127.0.0.1:9", redirectUri: `${ORIGIN}/callback`, failureRedirect: "/login?from=callback#form" });
    const unreachable = await own.signIn(new Request(`${ORIGIN}/login`));
    assert.equal(unreachable.headers.get("Location"), "/login?from=callback&sign_in_error=network#form");
    const evil = createServerCompanion({ url: "http://127.0.0.1:9", redirectUri: `${ORIGIN}/callback`, failureRedirect: "//evil.example" });
    assert.equal((await evil.signIn(new Request(`${ORIGIN}/login`))).headers.get("Location"), "/?sign_in_error=network");
    // Server components have headers but no request.
    const [session] = approved.headers.getSetCookie().filter((each) => each.startsWith("companion=")) as [string];
    const headers = new Headers({ Cookie: session.split(";")[0] as string });
    const state = await companion.session({ headers });
    assert.equal(state.state === "in" && state.me.user.username, "marlow.quay");
    assert.ok((await companion.api({ headers }).guilds()).length > 0);
    assert.throws(() => companion.api({ headers, method: "POST" }), code("cross_site"));
  });
});

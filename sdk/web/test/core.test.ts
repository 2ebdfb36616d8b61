// Signing in, sessions, tabs, errors and retries, with the real service.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, afterEach, before, describe, test } from "node:test";
import { type Companion, CompanionError, type CompanionOptions, createCompanion } from "../src/index.js";
import { Browser, Network, ORIGIN, Service, type Tab, leave, needsService, uncaught, until } from "./support.js";

const service = new Service();
const open: Companion[] = [];

/** A client in a tab. */
function companionIn(tab: Tab, network = new Network(), options: Partial<CompanionOptions> = {}): Companion {
  tab.enter();
  const companion = createCompanion({ url: service.url, fetch: network.fetch, ...options });
  open.push(companion);
  return companion;
}

/** Goes to the provider, signs in and returns, ready for `handleCallback`. */
async function comeBack(companion: Companion, tab: Tab, choice: string, returnTo?: string): Promise<void> {
  tab.enter();
  await companion.signIn({ returnTo });
  tab.goto(await service.choose(tab.assigned as string, choice));
}

async function signIn(companion: Companion, tab: Tab, person: string): Promise<void> {
  await comeBack(companion, tab, person);
  assert.equal((await companion.handleCallback())?.user.id, companion.session()?.user.id);
}

const code = (wanted: string) => (error: unknown) => {
  assert.ok(error instanceof CompanionError, String(error));
  assert.equal(error.code, wanted);
  return true;
};

describe("the core", { skip: needsService }, () => {
  before(() => service.start());
  after(() => service.end());
  afterEach(async () => {
    for (const companion of open.splice(0)) companion.close();
    leave();
    await service.control("DELETE");
  });

  test("signing in: state and PKCE go to the provider, the user comes back to where they were", async () => {
    const network = new Network();
    const tab = new Browser().tab(`${ORIGIN}/guilds/1?tab=2#roles`);
    const companion = companionIn(tab, network);
    assert.equal(companion.session(), null);
    assert.equal(await companion.handleCallback(), null);

    await companion.signIn();
    const page = new URL(tab.assigned as string);
    assert.equal(page.searchParams.get("redirect_uri"), `${ORIGIN}/callback`);
    assert.equal(page.searchParams.get("code_challenge_method"), "S256");
    assert.match(page.searchParams.get("code_challenge") as string, /^[\w-]{43}$/);
    assert.match(page.searchParams.get("state") as string, /^bc_[\w-]{43}$/);

    const back = new URL(await service.choose(page.href, "owner"));
    back.searchParams.set("theme", "dark");
    tab.goto(`${back.href}#top`);
    const heard: (string | undefined)[] = [];
    companion.onSession((session) => heard.push(session?.user.name));
    const result = await companion.handleCallback();
    assert.equal(result?.user.name, "Marlow Quay");
    assert.equal(result?.returnTo, "/guilds/1?tab=2#roles");
    assert.deepEqual(heard, ["Marlow Quay"]);
    // The provider's parameters are removed from the address; the rest and the router's state are unchanged.
    assert.equal(tab.location.href, `${ORIGIN}/callback?theme=dark#top`);
    assert.deepEqual(tab.history.state, { router: 1 });
    // Nothing is left of the sign-in.
    assert.equal(tab.session.values.size, 0);
    const post = network.calls.find(({ method }) => method === "POST");
    assert.match(post?.headers["Idp-Code-Verifier"] as string, /^[\w-]{43}$/);

    assert.equal((await companion.me()).user.username, "marlow.quay");
    const guilds = await companion.guilds();
    assert.ok(guilds.length > 0);
    assert.equal((await companion.guild(guilds[0]?.id as string)).name, guilds[0]?.name);
    assert.ok(Array.isArray(await companion.invitableGuilds()));
    assert.ok((await companion.status()).health.bot);
    assert.ok((await companion.team()).length > 0);
    assert.ok((await companion.feedback()).length > 0);
    assert.ok((await companion.stats()).guilds > 0);
    const sessions = await companion.sessions();
    assert.equal(sessions.filter(({ current }) => current).length, 1);

    // After a reload the session is still there.
    assert.equal(companionIn(tab).session()?.user.name, "Marlow Quay");
  });

  test("`fresh` asks the provider; `cache` only bypasses the browser's cache", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "owner");
    await companion.guilds({ fresh: true });
    assert.equal(network.calls.at(-1)?.headers["Cache-Control"], "no-cache");
    await companion.guilds({ cache: "no-cache" });
    assert.equal(network.calls.at(-1)?.headers["Cache-Control"], undefined);
    assert.equal(network.calls.at(-1)?.init.cache, "no-cache");
    await companion.team({ fresh: true });
    assert.equal(network.calls.at(-1)?.headers["Cache-Control"], undefined);
    assert.equal(network.calls.at(-1)?.init.cache, "no-cache");
  });

  test("a code from someone else's sign-in signs no one in and isn't even sent", async () => {
    const network = new Network();
    const browser = new Browser();
    const tab = browser.tab();
    const other = browser.tab();
    const companion = companionIn(tab, network);
    const elsewhere = companionIn(other);
    await elsewhere.signIn();
    const states = new URL(other.assigned as string).searchParams.get("state") as string;
    tab.enter();
    await companion.signIn();
    const before = network.calls.length;
    for (const query of ["?code=member&state=bc_", "?code=member&state=bc_x", `?code=member&state=${states}`]) {
      tab.goto(`${ORIGIN}/callback${query}`);
      await assert.rejects(companion.handleCallback(), code("state_mismatch"), query);
      assert.equal(tab.location.search, "", query);
    }
    assert.equal(companion.session(), null);
    assert.equal(network.calls.length, before);

    // It doesn't change who is signed in, either.
    await signIn(companion, tab, "owner");
    tab.goto(`${ORIGIN}/callback?code=member&state=bc_x`);
    await assert.rejects(companion.handleCallback(), code("state_mismatch"));
    assert.equal(companion.session()?.user.username, "marlow.quay");
  });

  test("a callback works once: opening its URL again signs no one in", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    await comeBack(companion, tab, "owner");
    const address = tab.location.href;
    await companion.handleCallback();
    await companion.signOut();
    tab.goto(address);
    await assert.rejects(companion.handleCallback(), code("state_mismatch"));
    assert.equal(companion.session(), null);
  });

  test("the user cancels, and the provider fails", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await companion.signIn();
    const state = new URL(tab.assigned as string).searchParams.get("state") as string;
    tab.goto(`${ORIGIN}/callback?error=access_denied&error_description=no&state=${state}`);
    await assert.rejects(companion.handleCallback(), code("access_denied"));
    assert.equal(tab.location.href, `${ORIGIN}/callback`);

    tab.goto(`${ORIGIN}/callback?error=access_denied&state=bc_x`);
    await assert.rejects(companion.handleCallback(), code("state_mismatch"));

    await companion.signIn();
    tab.goto(`${ORIGIN}/callback?error=access_denied&code=member&state=${new URL(tab.assigned as string).searchParams.get("state")}`);
    await assert.rejects(companion.handleCallback(), code("access_denied"));

    await companion.signIn();
    tab.goto(`${ORIGIN}/callback?error=server_error&state=${new URL(tab.assigned as string).searchParams.get("state")}`);
    await assert.rejects(companion.handleCallback(), { code: "idp_error", message: "The sign-in failed at the provider: server_error." });
    tab.goto(`${ORIGIN}/callback?code=&state=${new URL(tab.assigned as string).searchParams.get("state")}`);
    await assert.rejects(companion.handleCallback(), { code: "idp_error", message: "The sign-in failed at the provider: no code." });
    assert.equal(network.count("POST", "/auth"), 0);

    // A dashboard page with an `error` parameter of its own isn't a callback.
    tab.goto(`${ORIGIN}/?error=too_many`);
    assert.equal(await companion.handleCallback(), null);
    assert.equal(tab.location.search, "?error=too_many");
  });

  test("React's double effect creates one session, and both calls return it", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await comeBack(companion, tab, "collector");
    const address = tab.location.href;
    const [first, second] = await Promise.all([companion.handleCallback(), companion.handleCallback()]);
    assert.ok(first);
    assert.equal(first, second);
    assert.equal(await companion.handleCallback(), first);
    // A router may still pass the URL with the code.
    assert.equal(await companion.handleCallback({ href: address }), first);
    assert.equal(network.count("POST", "/auth"), 1);
    assert.equal((await companion.sessions()).length, 1);

    // The result is forgotten on another page, and when the session ends.
    tab.goto(`${ORIGIN}/`);
    assert.equal(await companion.handleCallback(), null);
    tab.goto(`${ORIGIN}/callback`);
    await companion.signOut();
    assert.equal(await companion.handleCallback(), null);
  });

  test("two tabs sign in at once", async () => {
    const browser = new Browser();
    const [one, two] = [browser.tab(), browser.tab()];
    const [first, second] = [companionIn(one), companionIn(two)];
    await comeBack(first, one, "owner", "/one");
    await comeBack(second, two, "member", "/two");
    assert.equal((await first.handleCallback())?.returnTo, "/one");
    assert.equal((await second.handleCallback())?.returnTo, "/two");
    await until("both have the later session", () => first.session()?.token === second.session()?.token);
  });

  test("`returnTo` never leads to another site", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    for (const evil of ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "/\n/evil.example", "/.//evil.example", "/x/..//evil.example", "javascript:alert(1)", "evil", "\\\\evil.example", "/a\u0000b"]) {
      await comeBack(companion, tab, "owner", evil);
      const [key, text] = [...tab.session.values.entries()][0] as [string, string];
      const pending = JSON.parse(text) as { returnTo: string };
      assert.equal(pending.returnTo, "/", evil);
      // The same if a script has stored it.
      tab.session.values.set(key, JSON.stringify({ ...pending, returnTo: evil }));
      assert.equal((await companion.handleCallback())?.returnTo, "/", evil);
    }
  });

  test("every tab sees a sign-in and a sign-out", async () => {
    const browser = new Browser();
    const [one, two] = [browser.tab(), browser.tab()];
    const [first, second] = [companionIn(one), companionIn(two)];
    const heard: (string | null)[] = [];
    const forget = second.onSession((session) => heard.push(session?.user.username ?? null));
    await signIn(first, one, "owner");
    await until("the other tab is signed in", () => second.session() !== null);
    const { token } = first.session() as { token: string };
    assert.equal(second.session()?.token, token);
    assert.equal(second.session(), second.session());
    await second.signOut();
    await until("the first tab is signed out", () => first.session() === null);
    assert.deepEqual(heard, ["marlow.quay", null]);
    const response = await fetch(`${service.url}/me`, { headers: { Token: token } });
    assert.equal(response.status, 401);
    forget();
    await signIn(first, one, "owner");
    await until("the other tab is signed in", () => second.session() !== null);
    assert.equal(heard.length, 2);
  });

  test("signing out everywhere ends all sessions, even those of tabs with their own", async () => {
    const browser = new Browser();
    const [one, two, three] = [browser.tab(), browser.tab(), browser.tab()];
    const [first, second, stranger] = [companionIn(one), companionIn(two, new Network(), { storage: "session" }), companionIn(three, new Network(), { storage: "memory" })];
    await signIn(first, one, "manager");
    await signIn(second, two, "manager");
    await signIn(stranger, three, "member");
    assert.notEqual(first.session()?.token, second.session()?.token);
    const device = await service.token("manager");
    await first.signOutEverywhere();
    assert.equal(first.session(), null);
    await assert.rejects(second.me(), code("token_invalid"));
    assert.equal(second.session(), null);
    assert.ok(stranger.session());
    assert.equal((await fetch(`${service.url}/me`, { headers: { Token: device } })).status, 401);
  });

  test("if signing out everywhere fails, the user stays signed in; if signing out fails, they are still signed out here", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    await signIn(companion, tab, "owner");
    await service.control("PUT", "overloaded");
    await assert.rejects(companion.signOutEverywhere(), code("overloaded"));
    assert.ok(companion.session());
    await companion.signOut();
    assert.equal(companion.session(), null);
  });

  test("signing in as somebody else ends the session that was there", async () => {
    const browser = new Browser();
    const [one, two] = [browser.tab(), browser.tab()];
    const [first, second] = [companionIn(one), companionIn(two)];
    await signIn(first, one, "manager");
    await until("the other tab is signed in", () => second.session() !== null);
    const { token } = first.session() as { token: string };
    await signIn(second, two, "member");
    await until("it has ended at the service", async () => (await fetch(`${service.url}/me`, { headers: { Token: token } })).status === 401);
    await until("both have the new one", () => first.session()?.user.id === second.session()?.user.id);
  });

  test("creating a client has no effect; using it does", async () => {
    const tab = new Browser().tab();
    const listened: string[] = [];
    const isListening = () => listened.includes("storage");
    Object.assign(tab, {
      addEventListener: (name: string) => listened.push(name),
      localStorage: { getItem: () => assert.fail("read"), setItem: () => assert.fail("written") },
    });
    const network = new Network();
    const companion = companionIn(tab, network);
    assert.deepEqual([listened, network.calls], [[], []]);
    assert.ok((await companion.stats()).guilds);
    assert.ok(!isListening());
    assert.equal(companion.session(), null);
    assert.ok(isListening());
  });

  test("a call that gets no response ends after a while", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const hanging = (_: string, init: RequestInit = {}) =>
      new Promise<Response>((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    const companion = companionIn(new Browser().tab(), new Network(), { fetch: hanging });
    const read = assert.rejects(companion.stats(), (error: CompanionError) => error.code === "network" && /in time/.test(error.message));
    t.mock.timers.tick(20_000);
    await read;
    // The head arrived, but not the body.
    const stalled = (_: string, init: RequestInit = {}) =>
      Promise.resolve(new Response(new ReadableStream({ start: (body) => init.signal?.addEventListener("abort", () => body.error(init.signal?.reason)) })));
    const other = companionIn(new Browser().tab(), new Network(), { fetch: stalled });
    const body = assert.rejects(other.stats(), (error: CompanionError) => error.code === "network");
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(20_000);
    await body;
  });

  test("a session that has ended disappears from every tab, but a newer one stays", async () => {
    const browser = new Browser();
    const [one, two] = [browser.tab(), browser.tab()];
    const network = new Network();
    const [first, second] = [companionIn(one), companionIn(two, network)];
    await signIn(first, one, "moderator");
    await until("the other tab is signed in", () => second.session() !== null);
    await service.control("POST", "end-sessions/moderator");
    await assert.rejects(second.me(), code("token_invalid"));
    assert.equal(second.session(), null);
    await until("the first tab is signed out", () => first.session() === null);

    await signIn(first, one, "moderator");
    await until("the other tab is signed in", () => second.session() !== null);
    await service.control("POST", "end-sessions/moderator");
    // The first tab signs in again while the second waits for its response.
    network.after = async () => {
      network.after = () => undefined;
      await signIn(first, one, "moderator");
    };
    await assert.rejects(second.me(), code("token_invalid"));
    assert.ok(first.session());
    await until("the second tab has the newer one", () => second.session()?.token === first.session()?.token);
    assert.equal((await second.me()).user.id, first.session()?.user.id);
  });

  test("ends one session by its ID, and refuses invalid IDs", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "administrator");
    const device = await service.token("administrator");
    const other = (await companion.sessions()).find(({ current }) => !current);
    await companion.endSession(other?.id as string);
    assert.equal((await fetch(`${service.url}/me`, { headers: { Token: device } })).status, 401);
    await assert.rejects(companion.endSession(other?.id as string), code("session_not_found"));
    await assert.rejects(companion.guild("1"), code("guild_not_found"));
    const before = network.calls.length;
    for (const id of ["", ".", "..", "../me", "1?x", "1#", "a/b", "invitable"]) {
      await assert.rejects(companion.guild(id), code("guild_not_found"), id);
    }
    for (const id of ["", ".", "..", "../auth"]) await assert.rejects(companion.endSession(id), code("session_not_found"), id);
    assert.equal(network.calls.length, before);
  });

  test("errors say what happened", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    await assert.rejects(companion.guilds(), code("token_missing"));
    await comeBack(companion, tab, "owner");
    tab.location.searchParams.set("code", "no-scope");
    await assert.rejects(companion.handleCallback(), (error: CompanionError) => {
      assert.equal(error.code, "scope_missing");
      assert.equal(error.status, 403);
      assert.match(error.requestId as string, /./);
      assert.match(error.message, /./);
      return true;
    });

    const otherServer = createServer((_, response) => response.end("<html>"));
    await new Promise<void>((resolve) => otherServer.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(otherServer.address() as AddressInfo).port}`;
    await assert.rejects(companionIn(tab, new Network(), { url }).stats(), code("bad_answer"));
    otherServer.close();
    otherServer.closeAllConnections();
    await assert.rejects(companionIn(tab, new Network(), { url }).stats(), code("network"));
  });

  test("a page whose redirect URL isn't configured", async () => {
    const tab = new Browser().tab("http://localhost:9999/");
    await assert.rejects(companionIn(tab).signIn(), code("redirect_uri_unknown"));
    assert.equal(tab.assigned, null);
  });

  test("a listener that throws doesn't break the sign-in", async () => {
    const tab = new Browser().tab();
    const companion = companionIn(tab);
    const heard: unknown[] = [];
    companion.onSession(() => {
      throw new Error("a bug in the page");
    });
    companion.onSession((session) => heard.push(session));
    const thrown = await uncaught(() => signIn(companion, tab, "owner"));
    assert.match(String(thrown), /a bug in the page/);
    assert.equal(heard.length, 1);
    assert.ok(companion.session());
  });

  test("never follows a redirect with the token", async () => {
    let reached = false;
    const thief = createServer((_, response) => {
      reached = true;
      response.end();
    });
    await new Promise<void>((resolve) => thief.listen(0, "127.0.0.1", resolve));
    const server = createServer((_, response) => response.writeHead(307, { Location: `http://127.0.0.1:${(thief.address() as AddressInfo).port}/` }).end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const companion = companionIn(new Browser().tab(), new Network(), { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    await assert.rejects(companion.stats(), code("bad_answer"));
    assert.equal(reached, false);
    for (const each of [thief, server]) {
      each.close();
      each.closeAllConnections();
    }
  });

  test("retries a read when the service says when, but not forever, and not after an abort", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await signIn(companion, tab, "owner");
    await service.control("PUT", "overloaded");
    network.after = () => service.control("DELETE", "overloaded");
    assert.ok(await companion.me());
    assert.deepEqual(network.calls.filter(({ path }) => path === "/me").map(({ status }) => status), [503, 200]);

    network.after = () => undefined;
    await service.control("PUT", "overloaded");
    network.calls.length = 0;
    await assert.rejects(companion.me(), (error: CompanionError) => error.code === "overloaded" && error.retryAfter !== undefined);
    assert.equal(network.calls.length, 3);

    network.calls.length = 0;
    const stop = new AbortController();
    network.after = () => stop.abort(new Error("the user has left"));
    await assert.rejects(companion.me({ signal: stop.signal }), /the user has left/);
    assert.equal(network.calls.length, 1);

    // It doesn't wait silently for half a minute.
    network.after = () => undefined;
    await service.control("DELETE");
    await service.control("PUT", "rate-limited");
    network.calls.length = 0;
    await assert.rejects(companion.stats(), (error: CompanionError) => error.code === "rate_limited" && (error.retryAfter as number) > 10);
    assert.equal(network.calls.length, 1);
  });

  test("sends a code again only if the service says it's safe", async () => {
    const network = new Network();
    const tab = new Browser().tab();
    const companion = companionIn(tab, network);
    await comeBack(companion, tab, "owner");
    await service.control("PUT", "provider-limits");
    network.after = () => service.control("DELETE", "provider-limits");
    assert.ok(await companion.handleCallback());
    assert.equal(network.count("POST", "/auth"), 2);

    network.after = () => undefined;
    for (const [trouble, error] of [["provider-down", "idp_unavailable"], ["provider-refuses", "idp_misconfigured"], ["overloaded", "overloaded"]] as const) {
      await comeBack(companion, tab, "owner");
      await service.control("PUT", trouble);
      network.calls.length = 0;
      await assert.rejects(companion.handleCallback(), code(error));
      assert.equal(network.count("POST", "/auth"), 1, trouble);
      await service.control("DELETE");
    }
  });

  test("without storage, the session is kept in memory, and signing in says why it can't start", async () => {
    const tab = new Browser().tab();
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(tab, name, {
        get: () => {
          throw new DOMException("forbidden", "SecurityError");
        },
      });
    }
    const companion = companionIn(tab);
    assert.equal(companion.session(), null);
    await assert.rejects(companion.signIn(), code("unsupported"));
    tab.goto(`${ORIGIN}/callback?code=member&state=bc_x`);
    await assert.rejects(companion.handleCallback(), code("state_mismatch"));
  });

  test("ignores stored values that aren't a session", () => {
    const browser = new Browser();
    for (const text of ["", "{", "null", "1", "[]", '{"token":1}', '{"token":"x"}']) {
      browser.local.values.set(`bot-companion:${service.url}`, text);
      assert.equal(companionIn(browser.tab()).session(), null, text);
    }
  });

  test("during server rendering, no one is signed in, and public reads work", async () => {
    leave();
    const companion = createCompanion({ url: `${service.url}/` });
    assert.equal(companion.session(), null);
    assert.equal(await companion.handleCallback(), null);
    assert.ok((await companion.stats()).guilds);
    await assert.rejects(companion.signIn(), code("unsupported"));
    companion.close();
  });
});

// Cookie sessions on a server, with the real service.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { CompanionError, type ServerCompanion, createServerCompanion } from "../src/server.js";
import { Service, needsService } from "./support.js";

const service = new Service();
// Not the first configured redirect URL, so that sign-ins fail if it isn't sent.
const SITE = "http://localhost:5173";

class Visitor {
  readonly cookies = new Map<string, string>();
  readonly set: string[] = [];

  request(path: string, init: RequestInit = {}): Request {
    const headers = new Headers(init.headers);
    if (this.cookies.size) headers.set("Cookie", [...this.cookies].map(([key, value]) => `${key}=${value}`).join("; "));
    return new Request(new URL(path, SITE), { ...init, headers });
  }

  take(response: Response): string {
    for (const cookie of response.headers.getSetCookie()) {
      this.set.push(cookie);
      const [, key, value] = /^([^=]+)=([^;]*)/.exec(cookie) as unknown as [string, string, string];
      if (cookie.includes("Max-Age=0;")) this.cookies.delete(key);
      else this.cookies.set(key, value);
    }
    assert.equal(response.headers.get("Cache-Control"), "no-store");
    return response.headers.get("Location") as string;
  }
}

const sent: { url: string; init: RequestInit }[] = [];
function companionOf(more: object = {}): ServerCompanion {
  const spy = (url: string, init: RequestInit = {}) => {
    sent.push({ url, init });
    return fetch(url, init);
  };
  return createServerCompanion({ url: service.url, redirectUri: `${SITE}/callback`, fetch: spy, failureRedirect: false, ...more });
}

const code = (wanted: string, status?: number) => (error: unknown) => {
  assert.ok(error instanceof CompanionError, String(error));
  assert.equal(error.code, wanted);
  if (status) assert.equal(error.status, status);
  return true;
};

async function signIn(companion: ServerCompanion, visitor: Visitor, person: string, path = "/login"): Promise<string> {
  const page = visitor.take(await companion.signIn(visitor.request(path)));
  return visitor.take(await companion.callback(visitor.request(await service.choose(page, person))));
}

describe("the server client", { skip: needsService }, () => {
  before(() => service.start());
  after(() => service.end());
  afterEach(async () => {
    sent.length = 0;
    await service.control("DELETE");
  });

  const nameOf = async (companion: ServerCompanion, visitor: Visitor): Promise<string | undefined> => {
    const session = await companion.session(visitor.request("/"));
    return session.state === "in" ? session.me.user.name : undefined;
  };

  test("a sign-in page that isn't a URL is reported like every other failure", async () => {
    for (const authorize_url of ["nowhere", "https://[", "javascript:alert(1)"]) {
      const answer = { code: 200, message: "", data: { authorize_url, client_id: "1", scope: "identify", redirect_uri: `${SITE}/callback` } };
      const companion = companionOf({ fetch: async () => Response.json(answer), failureRedirect: "/" });
      const response = await companion.signIn(new Visitor().request("/login"));
      assert.equal(response.headers.get("Location"), "/?sign_in_error=bad_answer", authorize_url);
    }
  });

  test("signing in, reading and signing out with a cookie", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    assert.deepEqual(await companion.session(visitor.request("/")), { state: "out" });

    const response = await companion.signIn(visitor.request("/login?returnTo=/guilds/1%3Ftab%3D2"));
    assert.equal(response.status, 302);
    const page = new URL(visitor.take(response));
    assert.equal(page.searchParams.get("redirect_uri"), `${SITE}/callback`);
    assert.equal(page.searchParams.get("code_challenge_method"), "S256");
    assert.match(visitor.set[0] as string, /^companion-[\w-]{43}=[\w-]{43}\.\S+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/);

    const back = await companion.callback(visitor.request(await service.choose(page.href, "owner")));
    assert.equal(back.status, 302);
    assert.equal(visitor.take(back), "/guilds/1?tab=2");
    assert.deepEqual([...visitor.cookies.keys()], ["companion"]);
    assert.match(visitor.set.at(-1) as string, /^companion=bcs_\w+; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Lax$/);
    const post = sent.find(({ init }) => init.method === "POST")?.init.headers as Record<string, string>;
    assert.equal(post["Idp-Redirect-Uri"], `${SITE}/callback`);
    for (const { init } of sent) {
      assert.equal(new Headers(init.headers).get("Origin"), null);
      assert.equal(init.cache, "no-store");
    }

    assert.equal(await nameOf(companion, visitor), "Marlow Quay");
    const guilds = await companion.api(visitor.request("/")).guilds();
    assert.equal((await companion.api(visitor.request("/")).guild(guilds[0]?.id as string, { fresh: true })).id, guilds[0]?.id);
    assert.equal((sent.at(-1)?.init.headers as Record<string, string>)["Cache-Control"], "no-cache");

    // A second sign-in ends the first one's session, which nobody could end without its token.
    const first = companion.token(visitor.request("/")) as string;
    await signIn(companion, visitor, "member");
    assert.equal((await fetch(`${service.url}/me`, { headers: { Token: first } })).status, 401);

    const token = companion.token(visitor.request("/")) as string;
    const out = await companion.signOut(visitor.request("/logout", { method: "POST", headers: { Origin: SITE } }));
    assert.equal(out.status, 303);
    assert.equal(visitor.take(out), "/");
    assert.equal(visitor.cookies.size, 0);
    assert.equal((await fetch(`${service.url}/me`, { headers: { Token: token } })).status, 401);
    await assert.rejects(companion.api(visitor.request("/")).guilds(), code("token_missing", 401));
    assert.ok((await companion.api(visitor.request("/")).stats()).guilds);
  });

  test("cookies are `Secure` and protected from other subdomains, except on localhost", async () => {
    for (const [redirectUri, secure] of [
      ["https://dash.example/callback", true],
      ["http://dash.example/callback", true],
      ["http://localhost.evil.example/callback", true],
      ["http://localhost:3000/callback", false],
      ["http://127.0.0.1:3000/callback", false],
      ["http://[::1]:3000/callback", false],
    ] as const) {
      const response = await companionOf({ redirectUri }).signIn(new Request(new URL("/login", redirectUri)));
      const [cookie] = response.headers.getSetCookie() as [string];
      assert.equal(/; Secure$/.test(cookie), secure, redirectUri);
      assert.equal(cookie.startsWith("__Host-companion-"), secure, redirectUri);
    }
    const own = await companionOf({ cookie: { name: "dash", path: "/app", secure: true } }).signIn(new Request(`${SITE}/login`));
    assert.match(own.headers.getSetCookie()[0] as string, /^dash-\S+; Path=\/app; .*; Secure$/);
  });

  test("a code from someone else's sign-in signs no one in and isn't even sent", async () => {
    const companion = companionOf();
    const [victim, attacker] = [new Visitor(), new Visitor()];
    const page = attacker.take(await companion.signIn(attacker.request("/login")));
    const callback = await service.choose(page, "member");
    victim.take(await companion.signIn(victim.request("/login")));
    sent.length = 0;
    const state = [...victim.cookies.keys()][0]?.slice("companion-".length) as string;
    for (const path of [callback, "/callback?code=member", "/callback?code=member&state=", "/callback?code=member&state=x", `/callback?code=member&state=${state}x`, "/callback?error=access_denied", "/callback"]) {
      await assert.rejects(companion.callback(victim.request(path)), code("state_mismatch", 400), path);
    }
    // The session cookie doesn't count as a started sign-in.
    victim.cookies.set("companion", "bcs_x.y");
    await assert.rejects(companion.callback(victim.request("/callback?code=member&state=")), code("state_mismatch", 400));
    assert.deepEqual(sent, []);
    // The browser that started it can complete it, once.
    attacker.take(await companion.callback(attacker.request(callback)));
    await assert.rejects(companion.callback(attacker.request(callback)), code("state_mismatch", 400));
  });

  test("the user cancels, the provider fails, or the code is rejected", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    const state = new URL(visitor.take(await companion.signIn(visitor.request("/login")))).searchParams.get("state");
    await assert.rejects(companion.callback(visitor.request(`/callback?error=access_denied&state=${state}`)), code("access_denied", 403));
    await assert.rejects(companion.callback(visitor.request(`/callback?error=server_error&state=${state}`)), code("idp_error", 400));
    await assert.rejects(companion.callback(visitor.request(`/callback?state=${state}`)), code("idp_error", 400));
    await assert.rejects(companion.callback(visitor.request(`/callback?code=refused&state=${state}`)), code("idp_code_rejected", 401));
    assert.equal(companion.token(visitor.request("/")), null);
  });

  test("two tabs sign in at once, and of many sign-ins only the latest are kept", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    const pages: string[] = [];
    for (const path of ["/login?returnTo=/one", "/login?returnTo=/two"]) pages.push(visitor.take(await companion.signIn(visitor.request(path))));
    const places = [];
    for (const page of pages) places.push(visitor.take(await companion.callback(visitor.request(await service.choose(page, "owner")))));
    assert.deepEqual(places, ["/one", "/two"]);
    for (let i = 0; i < 12; i++) visitor.take(await companion.signIn(visitor.request("/login")));
    assert.equal(visitor.cookies.size, 1 + 5);
  });

  test("`returnTo` never leads to another site", async () => {
    const companion = companionOf();
    for (const evil of ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "/\n/evil.example", "/\r\nSet-Cookie: a=b", "/.//evil.example", "/x/..//evil.example", "javascript:alert(1)", "evil", "", "/a\u0000b"]) {
      const visitor = new Visitor();
      assert.equal(await signIn(companion, visitor, "owner", `/login?returnTo=${encodeURIComponent(evil)}`), "/", evil);
      const out = await companion.signOut(visitor.request("/logout", { method: "POST", headers: { Origin: SITE } }), { returnTo: evil });
      assert.equal(visitor.take(out), "/", evil);
      // The same if someone has changed the cookie.
      const page = visitor.take(await companion.signIn(visitor.request("/login")));
      const [key, value] = [...visitor.cookies][0] as [string, string];
      visitor.cookies.set(key, `${value.split(".")[0]}.${Buffer.from(evil).toString("base64url")}`);
      assert.equal(visitor.take(await companion.callback(visitor.request(await service.choose(page, "owner")))), "/", evil);
    }
    assert.equal(await signIn(companion, new Visitor(), "owner", "/login?returnTo=/r%C3%B6les%3Fa%3D1%26b%3D.%23top"), "/r%C3%B6les?a=1&b=.#top");
  });

  test("`returnTo` can't fill the cookies: more than 512 characters become `/`", async () => {
    const companion = companionOf();
    const longest = `/${"a".repeat(511)}`;
    for (const [path, place] of [
      [longest, longest],
      [`${longest}a`, "/"],
      [`/${"x/../".repeat(200)}`, "/"],
      // Each of these letters takes six characters once the path is normalised.
      [`/${"\u00f6".repeat(85)}`, `/${"%C3%B6".repeat(85)}`],
      [`/${"\u00f6".repeat(86)}`, "/"],
      [`/?${"a".repeat(20_000)}`, "/"],
    ] as const) {
      const visitor = new Visitor();
      assert.equal(await signIn(companion, visitor, "owner", `/login?returnTo=${encodeURIComponent(path)}`), place);
      const out = await companion.signOut(visitor.request("/logout", { method: "POST", headers: { Origin: SITE } }), { returnTo: path });
      assert.equal(visitor.take(out), place);
    }
    // The same if someone has changed the cookie.
    const visitor = new Visitor();
    const page = visitor.take(await companion.signIn(visitor.request("/login")));
    const [key, value] = [...visitor.cookies][0] as [string, string];
    visitor.cookies.set(key, `${value.split(".")[0]}.${Buffer.from(`${longest}a`).toString("base64url")}`);
    assert.equal(visitor.take(await companion.callback(visitor.request(await service.choose(page, "owner")))), "/");
    // Whatever a hostile link stores stays well below the 8 KB that servers commonly accept.
    for (let i = 0; i < 20; i++) visitor.take(await companion.signIn(visitor.request(`/login?returnTo=${encodeURIComponent(`/${"?".repeat(511)}`)}`)));
    const all = visitor.request("/").headers.get("Cookie") as string;
    assert.ok(all.length < 4096, `${all.length}`);
  });

  test("limits what it accepts from a callback's URL, and only repeats plain words", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    const state = new URL(visitor.take(await companion.signIn(visitor.request("/login")))).searchParams.get("state");
    sent.length = 0;
    for (const query of [`error=${"x".repeat(65)}`, "error=<b>", "error=", "code=", `code=${"x".repeat(513)}`, "code=%C3%B6", "code=a%0Ab", "code=a%20b"]) {
      await assert.rejects(companion.callback(visitor.request(`/callback?${query}&state=${state}`)), { code: "idp_error", message: "The sign-in failed at the provider." }, query);
    }
    await assert.rejects(companion.callback(visitor.request(`/callback?error=server_error&state=${state}`)), { message: "The sign-in failed at the provider: server_error." });
    assert.deepEqual(sent, []);
  });

  test("refuses unsafe requests from other sites", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    await signIn(companion, visitor, "owner");
    const good: Record<string, string>[] = [{ Origin: SITE }, { "Sec-Fetch-Site": "same-origin" }, { Origin: SITE, "Sec-Fetch-Site": "same-origin" }];
    const bad: Record<string, string>[] = [
      {},
      { Origin: "null" },
      { Origin: "" },
      { Origin: "http://localhost:3000" },
      { Origin: "https://localhost:5173" },
      { Origin: `${SITE}.evil.example` },
      { Origin: `${SITE}/` },
      { "Sec-Fetch-Site": "cross-site" },
      { "Sec-Fetch-Site": "same-site" },
      { "Sec-Fetch-Site": "none" },
      { Origin: SITE, "Sec-Fetch-Site": "cross-site" },
      { Origin: "https://evil.example", "Sec-Fetch-Site": "same-origin" },
      { Referer: `${SITE}/` },
    ];
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"]) {
      for (const headers of good) companion.api(visitor.request("/save", { method, headers }));
      for (const headers of bad) {
        assert.throws(() => companion.api(visitor.request("/save", { method, headers })), code("cross_site", 403), JSON.stringify(headers));
        assert.throws(() => companion.protect(visitor.request("/save", { method, headers })), code("cross_site", 403));
      }
    }
    for (const headers of bad) {
      companion.api(visitor.request("/", { headers }));
      await assert.rejects(companion.signOut(visitor.request("/logout", { method: "POST", headers })), code("cross_site", 403), JSON.stringify(headers));
    }
    // An image on another site must not sign anyone out.
    await assert.rejects(companion.signOut(visitor.request("/logout")), code("method_not_allowed", 405));
    assert.ok(await nameOf(companion, visitor));
  });

  test("signs out everywhere, and handles the cookie of a session that has ended", async () => {
    const companion = companionOf();
    const [desk, phone] = [new Visitor(), new Visitor()];
    await signIn(companion, desk, "manager");
    await signIn(companion, phone, "manager");
    const post = { method: "POST", headers: { Origin: SITE } };
    await service.control("PUT", "overloaded");
    await assert.rejects(companion.signOut(desk.request("/logout", post), { everywhere: true }), code("overloaded"));
    await service.control("DELETE");
    desk.take(await companion.signOut(desk.request("/logout", post), { everywhere: true, returnTo: "/bye" }));
    assert.deepEqual(await companion.session(phone.request("/")), { state: "out" });
    await assert.rejects(companion.api(phone.request("/")).guilds(), code("token_invalid", 401));
    assert.equal(phone.take(await companion.signOut(phone.request("/logout", post))), "/");
    assert.equal(phone.cookies.size, 0);

    await signIn(companion, desk, "manager");
    await service.control("PUT", "overloaded");
    const unknown = await companion.session(desk.request("/"));
    assert.equal(unknown.state === "unknown" && unknown.error.code, "overloaded", "a failure doesn't mean that no one is signed in");
    // The cookie is deleted even if the service can't be reached.
    desk.take(await companion.signOut(desk.request("/logout", post)));
    assert.equal(desk.cookies.size, 0);
  });

  test("a stranger with many bad codes stops no one else's sign-in", async () => {
    // As a proxy in front of the dashboard would set it.
    const companion = companionOf({ clientAddress: ({ headers }: Request) => headers.get("X-Forwarded-For") });
    const from = (address: string): Visitor => {
      const visitor = new Visitor();
      const { request } = visitor;
      visitor.request = (path, init = {}) => request.call(visitor, path, { ...init, headers: { ...init.headers, "X-Forwarded-For": address } });
      return visitor;
    };
    const stranger = from("203.0.113.7");
    const page = new URL(stranger.take(await companion.signIn(stranger.request("/login"))));
    const state = page.searchParams.get("state") as string;
    const refused = new Map<string, number>();
    const guess = async (number: number) => {
      const error = await companion.callback(stranger.request(`/callback?code=guess-${number}&state=${state}`)).catch((thrown) => thrown as CompanionError);
      assert.ok(error instanceof CompanionError);
      refused.set(error.code, (refused.get(error.code) ?? 0) + 1);
    };
    for (let first = 0; first < 1200; first += 50) await Promise.all(Array.from({ length: 50 }, (_, i) => guess(first + i)));
    assert.ok((refused.get("rate_limited") ?? 0) > 1000, JSON.stringify([...refused]));

    const visitor = from("198.51.100.4");
    assert.equal(await signIn(companion, visitor, "owner"), "/");
    assert.equal(await nameOf(companion, visitor), "Marlow Quay");
    assert.equal((await companion.api(visitor.request("/")).guilds()).length > 0, true);
    const stop = new AbortController();
    const stream = await companion.live(visitor.request("/live", { signal: stop.signal }));
    assert.equal(stream.status, 200);
    stop.abort();
    assert.deepEqual([...new Set(sent.map(({ init }) => (init.headers as Record<string, string>)["X-Forwarded-For"]))], ["203.0.113.7", "198.51.100.4"]);
  });

  test("passes on the live stream of the user, or the public one", async () => {
    const companion = companionOf();
    const visitor = new Visitor();
    const first = async (request: Request): Promise<string> => {
      const response = await companion.live(request);
      assert.equal(response.headers.get("Content-Type"), "text/event-stream");
      assert.equal(response.headers.get("Cache-Control"), "no-store");
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      let text = "";
      while (!text.includes("data:")) text += new TextDecoder().decode((await reader.read()).value);
      await reader.cancel();
      return text;
    };
    assert.doesNotMatch(await first(visitor.request("/live")), /guilds/);
    await signIn(companion, visitor, "owner");
    assert.match(await first(visitor.request("/live")), /guilds/);
    // The session has ended elsewhere.
    visitor.cookies.set("companion", "bcs_unknown");
    assert.doesNotMatch(await first(visitor.request("/live")), /guilds/);
    assert.equal((await companionOf({ url: "http://127.0.0.1:1" }).live(visitor.request("/live"))).status, 502);
  });

  test("never sends anything that isn't a token", async () => {
    const companion = companionOf();
    for (const value of ["", "x", "bcs_", "bcs_a b", "bcs_a,b"]) {
      assert.equal(companion.token(new Request(SITE, { headers: { Cookie: `companion=${value}` } })), null, value);
      assert.deepEqual(await companion.session(new Request(SITE, { headers: { Cookie: `companion=${value}` } })), { state: "out" }, value);
    }
    assert.deepEqual(sent, []);
    assert.equal(companion.token(new Request(SITE, { headers: { Cookie: "a; companion=bcs_1; b=c=d" } })), "bcs_1");
  });

  test("works on runtimes without the `cache` option", async () => {
    const original = globalThis.Request;
    globalThis.Request = class extends original {
      constructor(input: RequestInfo | URL, init?: RequestInit) {
        if (init && "cache" in init) throw new Error("The 'cache' field on 'RequestInitializerDict' is not implemented.");
        super(input, init);
      }
    };
    const companion = companionOf();
    globalThis.Request = original;
    await companion.api(new Request(SITE)).team({ fresh: true });
    assert.equal("cache" in (sent.at(-1)?.init ?? {}), false);
    assert.equal("credentials" in (sent.at(-1)?.init ?? {}), false);
  });
});

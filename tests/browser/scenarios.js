// Scenarios that every dashboard must pass: the site's own and the examples. They all show the same things under the same
// names.
import assert from "node:assert/strict";
import { HARBOUR, PEOPLE, stage, until } from "./harness.js";

const signInButton = (page) => page.getByRole("button", { name: "Sign in", exact: true });
const signOutButton = (page) => page.getByRole("button", { name: "Sign out", exact: true });
const signOutEverywhereButton = (page) => page.getByRole("button", { name: "Sign out everywhere" });
const servers = (page) => page.getByRole("list", { name: "Your servers" });
const serverNames = (page) => servers(page).locator("strong").allTextContents();
const problem = (page, text) => page.getByRole("alert").filter({ hasText: text });

/** What differs between dashboards: the page's path and its texts. */
const EXAMPLE = {
  path: "/",
  callback: "/callback",
  person: (page, name) => page.getByRole("banner").getByText(name, { exact: true }),
  noServers: "None of your servers have the bot yet.",
  botIsUp: "The bot has been online",
  sessionEnded: "You're signed out.",
  strangersCallback: (page) => problem(page, "didn't start on this page"),
  sorted: (guilds) => guilds,
  showAll: () => undefined,
  toSessions: () => undefined,
};

async function isSignedOut(page) {
  await signInButton(page).waitFor();
  assert.equal(await signOutButton(page).count(), 0);
}

/** On the sandbox's page, as this person. */
const choose = (page, person) => page.getByRole("link", { name: new RegExp(`\\b${person} · @`) }).click();

async function signIn(page, person) {
  await signInButton(page).click();
  await choose(page, person);
}

/** Opens the sandbox's page and returns with these parameters instead of its own. */
async function comeBackWith(page, change) {
  await signInButton(page).click();
  await page.getByRole("heading", { name: "Who do you want to sign in as?" }).waitFor();
  const asked = new URL(page.url()).searchParams;
  const back = new URL(asked.get("redirect_uri"));
  back.search = new URLSearchParams(change(asked.get("state"))).toString();
  await page.goto(back.href);
}

/** Runs all scenarios against a dashboard. `start()` returns its origin and the service behind it. `more` can add tests, which run before
 * the last one, because that removes the demo guilds. */
export function drive(name, start, more = () => undefined, differences = {}) {
  const own = { ...EXAMPLE, ...differences };
  const { path, callback, person: personOn, noServers, botIsUp, sessionEnded, strangersCallback, sorted, showAll, toSessions } = own;
  const isSignedIn = (page, name) => personOn(page, name).waitFor();
  const example = stage(name, start);
  const { visit } = example;

  for (const person of PEOPLE) {
    visit(`${person} signs in, sees their servers, reloads and signs out`, async (arrive, service) => {
      const own = await service.as(person);
      const guilds = sorted(await own.get("/guilds"));
      const before = (await own.get("/sessions")).length;
      const page = await (await arrive()).open(path);
      await signIn(page, person);
      await isSignedIn(page, own.user.name);
      // Neither the code nor the state stays in the URL.
      assert.equal(page.url(), example.origin + path);
      for (let loads = 0; loads < 2; loads += 1) {
        if (guilds.length === 0) await page.getByText(noServers).waitFor();
        else await servers(page).getByText(guilds[0].name, { exact: true }).first().waitFor();
        await showAll(page);
        assert.deepEqual(await serverNames(page), guilds.map((guild) => guild.name));
        const shown = await servers(page).getByRole("listitem").allTextContents();
        guilds.forEach((guild, index) => assert.ok(shown[index].includes(guild.role ?? "Member"), shown[index]));
        // Even where an effect runs twice.
        assert.equal((await own.get("/sessions")).length, before + 1, "exactly one session was created");
        if (botIsUp) await page.getByText(botIsUp).waitFor();
        await page.reload();
        await isSignedIn(page, own.user.name);
      }
      await signOutButton(page).click();
      await isSignedOut(page);
      await until("the session has ended", async () => (await own.get("/sessions")).length === before);
      await page.reload();
      await isSignedOut(page);
    });
  }

  visit("a second tab follows a sign-in and a sign-out", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    // Without the stream, which makes a page reload its data for other reasons.
    await visitor.context.route("**/live", (route) => route.abort());
    visitor.allow(/\/live: net::ERR_FAILED$/);
    const [first, second] = [await visitor.open(path), await visitor.open(path)];
    await isSignedOut(second);
    await signIn(first, "owner");
    await isSignedIn(first, user.name);
    await isSignedIn(second, user.name);
    await servers(second).getByText(HARBOUR.name).waitFor();
    await signOutButton(second).click();
    await isSignedOut(second);
    await isSignedOut(first);
    // Each time: a tab that looked too early would miss some.
    for (let round = 0; round < 3; round += 1) {
      await signIn(first, "owner");
      await isSignedIn(second, user.name);
      await signOutButton(first).click();
      await isSignedOut(second);
    }
  });

  // A browser opens six connections to a host; the tabs share one for the live stream.
  visit("eight tabs all show the servers", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    const pages = [await visitor.open(path)];
    await signIn(pages[0], "owner");
    await isSignedIn(pages[0], user.name);
    while (pages.length < 8) pages.push(await visitor.open(path));
    for (const page of pages) await servers(page).getByText(HARBOUR.name).waitFor();
  });

  visit("signing out everywhere reaches another browser", async (arrive, service) => {
    const own = await service.as("manager");
    const [here, elsewhere] = [await (await arrive()).open(path), await (await arrive()).open(path)];
    for (const page of [here, elsewhere]) {
      await signIn(page, "manager");
      await isSignedIn(page, own.user.name);
      await servers(page).getByText(HARBOUR.name).waitFor();
    }
    await toSessions(here);
    await signOutEverywhereButton(here).click();
    await isSignedOut(here);
    await isSignedOut(elsewhere);
    await assert.rejects(own.get("/me"), "all sessions have ended");
  });

  visit("a user who cancels at the provider sees a message and can try again", async (arrive, service) => {
    const page = await (await arrive()).open(path);
    await signInButton(page).click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await problem(page, "You cancelled the sign-in.").waitFor();
    await isSignedOut(page);
    await signIn(page, "member");
    await signOutButton(page).waitFor();
    assert.equal(await problem(page, "You cancelled the sign-in.").count(), 0);
  });

  visit("a callback with a wrong state signs no one in", async (arrive, service) => {
    const own = await service.as("member");
    const before = (await own.get("/sessions")).length;
    const page = await (await arrive()).open(path);
    await comeBackWith(page, () => ({ code: "member", state: "bc_wrong" }));
    await problem(page, "didn't start on this page").waitFor();
    await isSignedOut(page);
    await page.reload();
    await isSignedOut(page);
    assert.equal((await own.get("/sessions")).length, before, "the code wasn't used");
  });

  visit("Cancel, Back, approve: the user is signed in", async (arrive, service) => {
    const { user } = await service.as("member");
    const page = await (await arrive()).open(path);
    await signInButton(page).click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await problem(page, "You cancelled the sign-in.").waitFor();
    await page.goBack();
    await choose(page, "member");
    await isSignedIn(page, user.name);
  });

  for (const query of ["?code=member", "?code=member&state=", "?code=member&state=a-strangers", `?code=member&state=bc_${"a".repeat(43)}`]) {
    visit(`opening ${callback}${query} from someone else's sign-in signs no one in`, async (arrive, service) => {
      const own = await service.as("member");
      const before = (await own.get("/sessions")).length;
      const page = await (await arrive()).open(callback + query);
      // Without one of the client's `state` values, the code belongs to the page, so there's no message.
      if (query.includes("bc_")) await problem(page, "didn't start on this page").waitFor();
      await isSignedOut(page);
      assert.equal((await own.get("/sessions")).length, before, "the code wasn't used");
    });
  }

  visit("eight tabs share one stream, and another tab takes over when the leading one is closed", async (arrive, service) => {
    const visitor = await arrive();
    const streams = [];
    visitor.context.on("request", (request) => /\/live$/.test(new URL(request.url()).pathname) && streams.push(request.frame().page()));
    const first = await visitor.open(path);
    await signIn(first, "owner");
    await servers(first).getByText(HARBOUR.name).waitFor();
    const tabs = [];
    for (let opened = 0; opened < 7; opened += 1) tabs.push(await visitor.open(path));
    // Over HTTP/1.1, seven streams would leave no connection for the last tab's reads.
    for (const tab of tabs) await servers(tab).getByText(HARBOUR.name).waitFor();
    assert.deepEqual(streams.filter((page) => page !== first), []);
    await first.close();
    await until("another tab has the stream", () => streams.some((page) => page !== first));
    await service.control("POST", "end-sessions/owner");
    for (const tab of tabs) await isSignedOut(tab);
  });

  visit("a callback from someone else's sign-in doesn't change who is signed in", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    const page = await visitor.open(path);
    await signIn(page, "owner");
    await isSignedIn(page, user.name);
    await page.goto(`${example.origin}${callback}?code=member&state=bc_strangers`);
    await strangersCallback(page).waitFor();
    await isSignedIn(page, user.name);
  });

  visit("the session ends while the page is open, and while it isn't", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    const page = await visitor.open(path);
    await signIn(page, "owner");
    await isSignedIn(page, user.name);
    await servers(page).getByText(HARBOUR.name).waitFor();
    await service.control("POST", "end-sessions/owner");
    await isSignedOut(page);
    await page.getByText(sessionEnded).waitFor();

    await signIn(page, "owner");
    await isSignedIn(page, user.name);
    await page.goto("about:blank");
    await service.control("POST", "end-sessions/owner");
    await page.goto(example.origin + path);
    await isSignedOut(page);
  });

  visit("a sign-in while the provider is down shows a message, and works afterwards", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    const page = await visitor.open(path);
    visitor.allow(/^POST .*\/auth: 502$/);
    await service.control("PUT", "provider-down");
    await signIn(page, "owner");
    await problem(page, "Discord isn't responding right now.").waitFor();
    await isSignedOut(page);
    await service.control("DELETE", "provider-down");
    await signIn(page, "owner");
    await isSignedIn(page, user.name);
    assert.equal(await problem(page, "Discord").count(), 0);
  });

  // The site's own page has its own words for this.
  if (path === EXAMPLE.path) {
    visit("if the site is misconfigured, users are asked to tell its owner, not to try again", async (arrive, service) => {
      const visitor = await arrive();
      const page = await visitor.open(path);
      visitor.allow(/^POST .*\/auth: 502$/);
      await service.control("PUT", "provider-refuses");
      await signIn(page, "owner");
      await problem(page, "Please tell its owner.").waitFor();
      assert.equal(await problem(page, "try again").count(), 0);
      await isSignedOut(page);
    });
  }

  visit("if the server list can't be read, the page says so and can try again", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    visitor.allow(/^GET .*\/guilds: 502$/);
    // Without the stream, which makes the page try again by itself and hide the button.
    await visitor.context.route("**/live", (route) => route.abort());
    visitor.allow(/\/live: net::ERR_FAILED$/);
    const page = await visitor.open(path);
    await service.control("PUT", "guilds-fail/owner");
    await signIn(page, "owner");
    await isSignedIn(page, user.name);
    await problem(page, "Discord isn't responding right now.").waitFor();
    await service.control("DELETE", "guilds-fail/owner");
    await page.getByRole("button", { name: "Try again" }).click();
    await servers(page).getByText(HARBOUR.name).waitFor();
    assert.equal(await problem(page, "Discord").count(), 0);
  });

  more(visit, { signIn, problem });

  visit("the bot's changes appear in all tabs without a reload", async (arrive, service) => {
    const visitor = await arrive();
    const page = await visitor.open(path);
    await signIn(page, "owner");
    await servers(page).getByText(HARBOUR.name).waitFor();
    const second = await visitor.open(path);
    await servers(second).getByText(HARBOUR.name).waitFor();
    for (const each of [page, second]) await each.evaluate(() => (window.isSamePage = true));

    const guild = { id: HARBOUR.id, owner: HARBOUR.owner, name: "Harbour Village", members: 7 };
    await service.botTakesOver(guild);
    for (const each of [page, second]) await servers(each).getByText("Harbour Village").waitFor();
    await service.botEvent({ type: "guild", ...guild, name: "Harbour <b>Metropolis</b>" });
    for (const each of [page, second]) await servers(each).getByText("Harbour <b>Metropolis</b>").waitFor();
    for (const each of [page, second]) assert.equal(await each.evaluate(() => window.isSamePage), true);
  });
}

// The site's dashboard: the examples' scenarios, and its own.
import assert from "node:assert/strict";
import { HARBOUR, until } from "../harness.js";
import { drive } from "../scenarios.js";
import { DASHBOARD, LANGUAGES, THEMES, WIDTHS, arriveOnSite, axe, choose, fitsWindow, isSignedIn, person, signIn, signInButton, startSite, tooSmall, view } from "./site.js";

const servers = (page) => page.getByRole("list", { name: "Your servers" });
const shownServers = async (page) => {
  const names = [];
  for (const entry of await servers(page).locator("strong").all()) if (await entry.isVisible()) names.push(await entry.textContent());
  return names;
};

const RANKS = ["Owner", "Manager", "Administrator", "Moderator", undefined];
/** Servers where the user can do the most come first. */
const sorted = (guilds) => guilds.toSorted((a, b) => RANKS.indexOf(a.role ?? undefined) - RANKS.indexOf(b.role ?? undefined));
const more = (page) => page.getByRole("button", { name: /^Show \d+ more/ });
async function showAll(page) {
  while (await more(page).isVisible()) await more(page).click();
}

const differences = {
  sorted,
  showAll,
  toSessions: (page) => view(page, "Sessions"),
  path: DASHBOARD,
  callback: DASHBOARD,
  person,
  noServers: "None of your servers have the bot yet",
  botIsUp: undefined,
  sessionEnded: "You're no longer signed in",
  strangersCallback: (page) => page.getByRole("status").filter({ hasText: "nothing has changed" }),
};

drive("site", startSite, ownTests, differences);

function ownTests(visit) {
  visit("a sign-in that is clicked twice, and a callback that is opened twice, make one session", async (arrive, service) => {
    const own = await service.as("member");
    const before = (await own.get("/sessions")).length;
    const visitor = await arriveOnSite(arrive);
    const page = await visitor.open(DASHBOARD);
    // Not with the mouse, whose second click could hit the next page.
    await signInButton(page).evaluate((button) => [1, 2].forEach(() => button.click()));
    await choose(page, "member");
    await isSignedIn(page);
    assert.equal((await own.get("/sessions")).length, before + 1);
    const callback = visitor.requests.find((request) => new URL(request.url()).searchParams.has("code"));
    await page.goto(callback.url());
    await isSignedIn(page);
    assert.equal((await own.get("/sessions")).length, before + 1);
    assert.equal(page.url(), service.url + DASHBOARD, "the code does not stay in the address");
  });

  visit("the collector searches among 200 servers", async (arrive, service) => {
    const guilds = sorted(await (await service.as("collector")).get("/guilds"));
    const page = await (await arriveOnSite(arrive)).open(DASHBOARD);
    await signIn(page, "collector");
    await servers(page).getByText(guilds[0].name, { exact: true }).waitFor();
    const search = page.getByRole("searchbox", { name: "Search your servers" });
    await search.fill("harbor SOCIETY");
    const expected = guilds.map(({ name }) => name).filter((name) => name.includes("Harbor Society"));
    assert.ok(expected.length > 0 && expected.length < 10);
    await until("the list is shorter", async () => (await shownServers(page)).length === expected.length);
    assert.deepEqual(await shownServers(page), expected);
    await page.getByText(`${expected.length} of ${guilds.length} servers`).waitFor();
    await search.fill("no such server");
    await page.getByText(`0 of ${guilds.length} servers`).waitFor();
    await page.getByRole("button", { name: "Why is my server missing?" }).click();
    assert.equal(await page.getByRole("textbox", { name: "Server name or ID" }).inputValue(), "no such server");
    await search.fill("");
    await page.getByText(`${guilds.length} servers`, { exact: true }).waitFor();
    await fitsWindow(page, "the collector's dashboard");
  });

  visit("what a person may do, where the bot could be added, and why a server is missing", async (arrive) => {
    const page = await (await arriveOnSite(arrive)).open(DASHBOARD);
    await signIn(page, "owner");
    const harbour = servers(page).getByRole("listitem").filter({ hasText: HARBOUR.name });
    await harbour.getByText("Premium", { exact: true }).waitFor();
    await harbour.getByText("Your permissions").click();
    await harbour.getByText("Manage this server").waitFor();
    const listed = await harbour.locator(".permissions > li").allTextContents();
    assert.deepEqual(listed.slice(0, 3), ["Manage this server", "Administer", "Moderate"]);
    assert.equal(await harbour.locator(".permissions").getByText(/set up|premium|linked/).count(), 0, "facts aren't permissions");
    await harbour.locator(".server-facts").getByText("The bot is set up here").waitFor();
    await view(page, /Add the bot/);
    await page.getByRole("list", { name: "Add the bot" }).getByText("The Quiet Library").waitFor();
    await page.goBack();
    await harbour.waitFor();
    await page.locator("summary").getByText("Why is my server missing?").click();
    const missing = page.getByRole("textbox", { name: "Server name or ID" });
    const ask = async (name) => {
      await missing.fill(name);
      await page.getByRole("button", { name: "Find out" }).click();
    };
    await ask("quiet");
    await page.getByText("The bot isn't in The Quiet Library yet").waitFor();
    await ask("harbour");
    await page.getByText("Harbour City Roleplay is in your list").waitFor();
    await ask("Nowhere");
    await page.getByText("This account isn't a member of that server").waitFor();
  });

  visit("nothing moves while the dashboard loads, and only long lists have a search", async (arrive) => {
    for (const width of [...WIDTHS, 768]) {
      const visitor = await arriveOnSite(arrive, { viewport: { width, height: 900 } });
      await visitor.context.addInitScript(() => {
        window.moved = [];
        const observer = new PerformanceObserver((list) => {
          for (const { value, hadRecentInput, sources } of list.getEntries()) {
            if (!hadRecentInput) window.moved.push({ value, nodes: sources.map(({ node }) => node?.id || node?.className || node?.nodeName) });
          }
        });
        observer.observe({ type: "layout-shift", buffered: true });
      });
      const page = await visitor.open(DASHBOARD);
      await signIn(page, "owner");
      await servers(page).getByText(HARBOUR.name).waitFor();
      await page.reload();
      await servers(page).getByText(HARBOUR.name).waitFor();
      await page.getByRole("link", { name: /Add the bot/ }).waitFor();
      assert.ok(!(await page.getByRole("searchbox").isVisible()));
      const moved = await page.evaluate(() => window.moved);
      const sum = moved.reduce((total, { value }) => total + value, 0);
      assert.ok(sum < 0.03, `${width}: ${JSON.stringify(moved)}`);
    }
  });

  visit("Refresh says how it went when it is done, and not earlier", async (arrive) => {
    const visitor = await arriveOnSite(arrive);
    const page = await visitor.open(DASHBOARD);
    await signIn(page, "owner");
    await servers(page).getByText(HARBOUR.name).waitFor();
    let respond;
    const asked = new Promise((resolve) => {
      void visitor.context.route("**/guilds", (route) => new Promise((go) => resolve((respond = go))).then(() => route.continue()), { times: 1 });
    });
    const button = page.getByRole("button", { name: "Refresh" });
    await button.click();
    await asked;
    assert.equal(await button.getAttribute("aria-busy"), "true");
    assert.equal(await page.locator("#list-state").textContent(), "");
    respond();
    await page.getByText("The list is up to date.").waitFor();
    assert.equal(await button.getAttribute("aria-busy"), null);
  });

  visit("a session that is ended from another browser ends there", async (arrive) => {
    const [here, elsewhere] = [await (await arriveOnSite(arrive)).open(DASHBOARD), await (await arriveOnSite(arrive)).open(DASHBOARD)];
    for (const page of [here, elsewhere]) {
      await signIn(page, "moderator");
      await isSignedIn(page);
    }
    await view(here, "Sessions");
    const sessions = here.getByRole("list", { name: "Where you're signed in" });
    await sessions.getByText("This session").waitFor();
    await sessions.getByRole("button", { name: "Sign out: Chrome on Linux" }).click();
    await here.getByText("Signed out: Chrome on Linux").waitFor();
    await signInButton(elsewhere).waitFor();
    await isSignedIn(here);
  });

  for (const locale of LANGUAGES) {
    visit(`axe finds nothing on the dashboard of a signed-in user, and it fits, in ${locale}`, async (arrive) => {
      for (const name of ["owner", "newcomer"]) {
        const visitor = await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce", locale });
        const page = await visitor.open(DASHBOARD);
        await page.locator("#sign-in").click();
        await choose(page, name);
        await page.locator(name === "owner" ? "#servers > li" : "#no-servers").first().waitFor();
        const found = [];
        for (const link of await page.locator("#views a").filter({ visible: true }).all()) {
          await link.click();
          for (const summary of await page.locator("main summary").filter({ visible: true }).all()) await summary.click();
          const label = await link.textContent();
          for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: 800 });
            await fitsWindow(page, `${name}'s dashboard at ${width}`);
            found.push(...(await tooSmall(page)).map((line) => `${name} ${label} ${width}: ${line}`));
            for (const colorScheme of THEMES) {
              await page.emulateMedia({ colorScheme });
              found.push(...(await axe(page)).map((line) => `${name} ${label} ${width} ${colorScheme}: ${line}`));
            }
          }
        }
        assert.deepEqual(found, []);
      }
    });
  }

  visit("200 servers on a phone: a few screens, the most important first, cards of equal height", async (arrive, service) => {
    const guilds = sorted(await (await service.as("collector")).get("/guilds"));
    const page = await (await arriveOnSite(arrive, { viewport: { width: 360, height: 800 } })).open(DASHBOARD);
    await signIn(page, "collector");
    await servers(page).getByText(guilds[0].name, { exact: true }).waitFor();
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < 6_000, `the page is ${height} pixels long`);
    assert.deepEqual(await shownServers(page), guilds.slice(0, 24).map(({ name }) => name));
    await more(page).click();
    await until("there are more", async () => (await shownServers(page)).length === 48);
    const focused = await page.evaluate(() => document.activeElement.closest("li")?.querySelector("strong").textContent);
    assert.equal(focused, guilds[24].name, "keyboard users continue at the first new server");
    await page.setViewportSize({ width: 1440, height: 800 });
    const rows = await servers(page).getByRole("listitem").evaluateAll((cards) => {
      const boxes = cards.map((card) => card.getBoundingClientRect()).map(({ top, height }) => [Math.round(top), Math.round(height)]);
      return Object.values(Object.groupBy(boxes, ([top]) => top)).map((row) => new Set(row.map(([, each]) => each)).size);
    });
    assert.deepEqual(rows.filter((heights) => heights !== 1), [], "cards in a row have the same height");
    const [first, second] = [0, 1].map((index) => page.locator("#servers > li").nth(index));
    const { height: before } = await second.boundingBox();
    await first.getByText("Your permissions").click();
    await first.getByRole("list").first().waitFor();
    assert.equal((await second.boundingBox()).height, before, "opening one card doesn't stretch its neighbours");
  });

  visit("the sign-in card is in the middle", async (arrive) => {
    const page = await (await arriveOnSite(arrive, { viewport: { width: 1440, height: 900 } })).open(DASHBOARD);
    await signInButton(page).waitFor();
    const { x, width } = await page.locator("#signed-out").boundingBox();
    assert.ok(Math.abs(x + width / 2 - (await page.evaluate(() => document.documentElement.clientWidth)) / 2) < 2, `${x} ${width}`);
  });

  visit("the dashboard speaks German", async (arrive) => {
    const page = await (await arriveOnSite(arrive, { locale: "de-DE" })).open(DASHBOARD);
    await page.getByRole("button", { name: "Anmelden", exact: true }).click();
    await choose(page, "owner");
    await page.getByRole("button", { name: "Abmelden", exact: true }).waitFor();
    await page.getByRole("list", { name: "Deine Server" }).getByText(HARBOUR.name).waitFor();
  });
}

// The site's dashboard: the examples' scenarios, and its own.
import assert from "node:assert/strict";
import { HARBOUR, until } from "../harness.js";
import { drive } from "../scenarios.js";
import { DASHBOARD, THEMES, WIDTHS, arriveOnSite, axe, choose, fitsWindow, isSignedIn, person, signIn, signInButton, startSite } from "./site.js";

const servers = (page) => page.getByRole("list", { name: "Your servers" });
const shownServers = async (page) => {
  const names = [];
  for (const entry of await servers(page).locator("strong").all()) if (await entry.isVisible()) names.push(await entry.textContent());
  return names;
};

const differences = {
  path: DASHBOARD,
  callback: DASHBOARD,
  person,
  noServers: "None of your servers have the bot yet",
  botIsUp: undefined,
  sessionEnded: "You're no longer signed in",
  strangersCallback: (page) => page.getByRole("status").filter({ hasText: "nothing has changed" }),
};

drive("site", startSite, more, differences);

function more(visit) {
  visit("a sign-in that is clicked twice, and a callback that is opened twice, make one session", async (arrive, service) => {
    const own = await service.as("member");
    const before = (await own.get("/sessions")).length;
    const visitor = await arriveOnSite(arrive);
    const page = await visitor.open(DASHBOARD);
    await signInButton(page).dblclick();
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
    const guilds = await (await service.as("collector")).get("/guilds");
    const page = await (await arriveOnSite(arrive)).open(DASHBOARD);
    await signIn(page, "collector");
    await servers(page).getByText(guilds.at(-1).name, { exact: true }).waitFor();
    const search = page.getByRole("searchbox", { name: "Search your servers" });
    await search.fill("harbor SOCIETY");
    const expected = guilds.map(({ name }) => name).filter((name) => name.includes("Harbor Society"));
    assert.ok(expected.length > 0 && expected.length < 10);
    await until("the list is shorter", async () => (await shownServers(page)).length === expected.length);
    assert.deepEqual(await shownServers(page), expected);
    await page.getByText(`${expected.length} of ${guilds.length} servers`).waitFor();
    await search.fill("no such server");
    await page.getByText(`0 of ${guilds.length} servers`).waitFor();
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
    await page.getByRole("list", { name: "Add the bot" }).getByText("The Quiet Library").waitFor();
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

  visit("a session that is ended from another browser ends there", async (arrive) => {
    const [here, elsewhere] = [await (await arriveOnSite(arrive)).open(DASHBOARD), await (await arriveOnSite(arrive)).open(DASHBOARD)];
    for (const page of [here, elsewhere]) {
      await signIn(page, "moderator");
      await isSignedIn(page);
    }
    const sessions = here.getByRole("list", { name: "Where you're signed in" });
    await sessions.getByText("This session").waitFor();
    await sessions.getByRole("button", { name: "Sign out: Chrome on Linux" }).click();
    await here.getByText("Signed out: Chrome on Linux").waitFor();
    await signInButton(elsewhere).waitFor();
    await isSignedIn(here);
  });

  visit("axe finds nothing on the dashboard of somebody who is signed in, and it fits", async (arrive) => {
    for (const name of ["owner", "newcomer"]) {
      const page = await (await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce" })).open(DASHBOARD);
      await signIn(page, name);
      await isSignedIn(page);
      await (name === "owner" ? servers(page).getByText(HARBOUR.name) : page.getByText(differences.noServers)).waitFor();
      for (const summary of await page.locator("summary").all()) await summary.click();
      const found = [];
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        await fitsWindow(page, `${name}'s dashboard at ${width}`);
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await axe(page)).map((line) => `${name} ${width} ${colorScheme}: ${line}`));
        }
      }
      assert.deepEqual(found, []);
    }
  });

  visit("the dashboard speaks German", async (arrive) => {
    const page = await (await arriveOnSite(arrive, { locale: "de-DE" })).open(DASHBOARD);
    await page.getByRole("button", { name: "Anmelden", exact: true }).click();
    await choose(page, "owner");
    await page.getByRole("button", { name: "Abmelden", exact: true }).waitFor();
    await page.getByRole("list", { name: "Deine Server" }).getByText(HARBOUR.name).waitFor();
  });
}

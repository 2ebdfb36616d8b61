// What a visitor sees when something fails: whose fault it is, what to do, and how long to wait.
import assert from "node:assert/strict";
import { HARBOUR, until } from "../harness.js";
import { DASHBOARD, HOME, STATUS, WIDTHS, arriveOnSite, axe, fitsWindow, isSignedIn, onSite, signIn, signInButton } from "./site.js";

// Set before the service starts.
process.env.COMPANION_SITE_LINKS = "Support | https://chat.example/invite, Privacy | https://bot.example/privacy";
const { visit } = onSite();

const problem = (page, text) => page.getByRole("alert").filter({ hasText: text });

visit("wrong credentials of the service are told as such, with whom to tell", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  visitor.allow(/^POST .*\/auth: 502$/);
  await service.control("PUT", "provider-refuses");
  for (const [locale, said] of [["en-GB", "This site isn't set up correctly with Discord"], ["de-DE", "nicht richtig eingerichtet"]]) {
    const visitor = await arriveOnSite(arrive, { locale });
    visitor.allow(/^POST .*\/auth: 502$/);
    const page = await visitor.open(DASHBOARD);
    await page.locator("#sign-in").click();
    await page.getByRole("link", { name: /\bowner · @/ }).click();
    const told = problem(page, said);
    await told.waitFor();
    // Waiting won't help, so the page mustn't suggest it.
    assert.doesNotMatch(await told.textContent(), /isn't responding|Try again|antwortet/);
    assert.match(await told.textContent(), /ID: \w+/);
    assert.equal(await told.getByRole("link", { name: "Support" }).getAttribute("href"), "https://chat.example/invite");
    await page.setViewportSize({ width: 360, height: 800 });
    await fitsWindow(page, "the dashboard with a problem");
  }
  await service.control("DELETE", "provider-refuses");
  const page = await visitor.open(DASHBOARD);
  await signIn(page, "owner");
  await isSignedIn(page);
});

visit("a sign-in that waits for the provider says so, and goes on by itself", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  visitor.allow(/^POST .*\/auth: 503$/);
  const page = await visitor.open(DASHBOARD);
  await service.control("PUT", "provider-limits");
  await signIn(page, "owner");
  const waiting = page.getByRole("status").filter({ hasText: "Discord is limiting sign-ins right now." });
  await waiting.waitFor();
  assert.equal(await signInButton(page).isVisible(), false);
  await service.control("DELETE", "provider-limits");
  await isSignedIn(page);
  assert.equal(await waiting.count(), 0);
});

visit("a page that is refused offers itself again, with the true wait", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive, { javaScriptEnabled: false });
  visitor.allow(/: 503$/);
  // The style sheet is refused too.
  visitor.allow(/^console: Refused to apply style from /);
  await service.control("PUT", "overloaded");
  const page = await visitor.context.newPage();
  const refused = await page.goto(`${service.url}${STATUS}?server=871203344918732833`);
  assert.equal(refused.status(), 503);
  const seconds = Number(refused.headers()["retry-after"]);
  await page.getByText(`Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`, { exact: true }).waitFor();
  const html = await refused.text();
  await service.control("DELETE", "overloaded");
  await page.getByRole("link", { name: "Try again" }).click();
  await page.getByRole("heading", { level: 1, name: "Status" }).waitFor();
  assert.equal(new URL(page.url()).search, "?server=871203344918732833");

  // The same page with its script, which was refused above, and a longer wait.
  const body = html.replace(`data-seconds="${seconds}"`, 'data-seconds="30"');
  const isRefused = async () => {
    const visitor = await arriveOnSite(arrive, { bypassCSP: true });
    visitor.allow(/: 503$/);
    await visitor.context.route(`**${STATUS}`, (route) => route.fulfill({ status: 503, contentType: "text/html", body }), { times: 1 });
    await visitor.context.clock.install();
    const page = await visitor.open(STATUS);
    await page.getByText(/^Try again in (2\d|30) seconds\.$/).waitFor();
    return page;
  };
  const again = await isRefused();
  for (const width of WIDTHS) {
    await again.setViewportSize({ width, height: 800 });
    await fitsWindow(again, "the page of a refusal");
  }
  assert.deepEqual(await axe(again), []);
  await again.clock.runFor(31_000);
  await again.getByText("You can try again now.").waitFor();
  await again.getByRole("link", { name: "Try again" }).click();
  await again.getByRole("heading", { level: 1, name: "Status" }).waitFor();

  // It reloads by itself when the network is back.
  const offline = await isRefused();
  await offline.context().setOffline(true);
  await until("the browser knows", () => offline.evaluate(() => !navigator.onLine));
  await offline.context().setOffline(false);
  await offline.getByRole("heading", { level: 1, name: "Status" }).waitFor();
});

/** A visitor without the live stream, so that nothing else makes the page reload its data. */
async function withoutStream(arrive) {
  const visitor = await arriveOnSite(arrive);
  await visitor.context.route("**/live", (route) => route.abort());
  visitor.allow(/\/live: net::ERR_FAILED$/);
  visitor.allow(/net::ERR_INTERNET_DISCONNECTED/);
  return visitor;
}

visit("a page that could not be read again is, as soon as the network is back", async (arrive, service) => {
  const visitor = await withoutStream(arrive);
  await visitor.context.clock.install();
  const page = await visitor.open(HOME);
  await page.getByRole("heading", { name: "The bot is up", exact: true }).waitFor();
  // The clock stands still from here on, because a page is also read every minute.
  await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1000));
  await visitor.context.setOffline(true);
  await service.control("PUT", "bot-offline");
  await visitor.context.setOffline(false);
  await until("the browser knows", () => page.evaluate(() => navigator.onLine));
  await page.clock.runFor(2_000);
  await page.getByRole("heading", { name: "The bot is down", exact: true }).waitFor();
});

visit("a list that could not be read is, as soon as the network is back", async (arrive) => {
  const visitor = await withoutStream(arrive);
  const page = await visitor.open(DASHBOARD);
  await signIn(page, "owner");
  await page.getByRole("list", { name: "Your servers" }).getByText(HARBOUR.name).waitFor();
  await visitor.context.setOffline(true);
  await page.getByRole("button", { name: "Refresh" }).click();
  await problem(page, "We can't reach the service.").waitFor();
  await visitor.context.setOffline(false);
  await problem(page, "We can't reach the service.").waitFor({ state: "hidden" });
  await page.getByRole("list", { name: "Your servers" }).getByText(HARBOUR.name).waitFor();
});

// This is the last test, because it restarts the service.
visit("when the service is gone, every page says so and isn't green, and all is well when it is back", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  // The sandbox, and the avatars with it, have another address after the restart.
  visitor.allow(/net::ERR_|\/avatars\//);
  const pages = [await visitor.open(DASHBOARD)];
  await signIn(pages[0], "owner");
  await isSignedIn(pages[0]);
  await pages[0].getByRole("list", { name: "Your servers" }).getByText(HARBOUR.name).waitFor();
  for (const path of [HOME, STATUS]) pages.push(await visitor.open(path));
  const lost = (page) => page.getByRole("status").filter({ hasText: /^Connection lost\. Last updated / });
  const colour = (page) => page.locator(".shape .fill").first().evaluate((shape) => getComputedStyle(shape).fill);
  const green = await colour(pages[1]);
  await service.stop();
  for (const page of pages) await lost(page).waitFor();
  for (const page of pages.slice(1)) assert.notEqual(await colour(page), green);
  await service.startAgain();
  for (const page of pages) await lost(page).waitFor({ state: "hidden" });
  for (const page of pages.slice(1)) assert.equal(await colour(page), green);
  // The sandbox still knows who signed in.
  await pages[0].getByRole("button", { name: "Refresh" }).click();
  await pages[0].getByRole("status").filter({ hasText: "The list is up to date." }).waitFor();
  await isSignedIn(pages[0]);
});

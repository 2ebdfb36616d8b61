// Times: in the visitor's zone with UTC on hover, in UTC without JavaScript, and "ago" by the server's clock.
import assert from "node:assert/strict";
import { DASHBOARD, HOME, STATUS, arriveOnSite, isSignedIn, onSite, signIn, view } from "./site.js";

const site = onSite();
const { visit } = site;

const HOUR = 3_600_000;
const asOf = (page) => page.locator("time[data-format=seconds]");
const written = (time, locale, options) => new Intl.DateTimeFormat(locale, options).format(time);
// Browsers differ in which spaces they write; so do they from Node.
const plain = (text) => text.replaceAll(/\s/gu, " ");

for (const [locale, timeZone] of [["en-GB", "Asia/Kolkata"], ["en-US", "America/New_York"], ["de-DE", "Europe/Berlin"]]) {
  visit(`a visitor with ${locale} in ${timeZone} reads their own time, and UTC on hover`, async (arrive) => {
    const page = await (await arriveOnSite(arrive, { locale, timezoneId: timeZone })).open(STATUS);
    await page.locator("time[data-format=seconds][title]").waitFor();
    const time = new Date(await asOf(page).getAttribute("datetime"));
    const hour = locale === "en-US" ? "numeric" : "2-digit";
    const clock = { hour, minute: "2-digit", second: "2-digit", timeZone };
    assert.equal(plain(await asOf(page).textContent()), plain(written(time, locale, clock)));
    const utc = { day: "numeric", month: "short", year: "numeric", hour, minute: "2-digit", timeZone: "UTC", timeZoneName: "short" };
    assert.equal(plain(await asOf(page).getAttribute("title")), plain(written(time, locale, utc)));
    assert.match(await asOf(page).getAttribute("title"), /UTC$/);
    assert.equal(await page.locator("[data-utc]").count(), 0, "nothing says UTC of a time that is not");
    for (const text of await page.locator("time").allTextContents()) assert.ok(!text.includes("UTC"), text);
  });
}

visit("a status page that fetched itself again still shows the visitor's time", async (arrive, service) => {
  const page = await (await arriveOnSite(arrive, { locale: "en-GB", timezoneId: "Asia/Kolkata" })).open(STATUS);
  await page.locator("time[data-format=seconds][title]").waitFor();
  await service.control("PUT", "bot-offline");
  await page.getByRole("heading", { name: "The bot is down", exact: true }).waitFor();
  const since = page.getByRole("main").locator("p.known time");
  assert.match(await since.textContent(), /^\d+ \w+,? (at )?\d\d:\d\d$/);
  assert.match(await since.getAttribute("title"), /UTC$/);
});

visit("without JavaScript times are in UTC and say so", async (arrive) => {
  const visitor = await arriveOnSite(arrive, { javaScriptEnabled: false, timezoneId: "Asia/Kolkata" });
  const page = await visitor.open(STATUS);
  assert.match(await asOf(page).textContent(), /^\d\d:\d\d:\d\d UTC$/);
  const home = await visitor.open(HOME);
  assert.match(await home.locator("time[data-format=ago]").first().getAttribute("title"), /UTC$/);
});

for (const [what, hours] of [["two hours fast", 2], ["two hours slow", -2]]) {
  visit(`a clock that is ${what} changes nothing about when somebody signed in`, async (arrive) => {
    const visitor = await arriveOnSite(arrive);
    await visitor.context.addInitScript((shift) => {
      const real = Date.now;
      Date.now = () => real() + shift;
    }, hours * HOUR);
    // Every session began three hours before it did: a clock that is slow shows only in what is not new.
    await visitor.context.route("**/sessions", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      for (const session of answer.data) session.created -= (3 * HOUR) / 1000;
      await route.fulfill({ response, json: answer });
    });
    const page = await visitor.open(DASHBOARD);
    await signIn(page, "moderator");
    await isSignedIn(page);
    const age = page.locator("#list-age", { hasText: "Updated" });
    await age.waitFor();
    assert.match(await age.textContent(), /^Updated (just now|1 minute ago)$/);
    await view(page, "Sessions");
    const sessions = page.getByRole("list", { name: "Where you're signed in" });
    const own = sessions.getByRole("listitem").filter({ hasText: "This session" });
    await own.waitFor();
    assert.match(await own.textContent(), /Signed in 3 hours ago, last seen just now/);
    assert.match(await own.locator("time").first().getAttribute("title"), /\(.*UTC\)$/);
  });
}

// Incidents, announcements and maintenance as visitors see them.
import assert from "node:assert/strict";
import { HOME, STATUS, arriveOnSite, axe, fitsWindow, onSite, openAndFollow, WIDTHS } from "./site.js";

const site = onSite();
const { visit } = site;

const announcements = (page) => page.getByRole("region", { name: "Announcements" });
const happenings = (page) => page.getByRole("region", { name: "Incidents" });
const article = (page, title) => announcements(page).getByRole("article").filter({ hasText: title });
const isInView = (element) =>
  element.evaluate((it) => {
    const { top } = it.getBoundingClientRect();
    return top >= 0 && top < innerHeight;
  });

visit("the first run shows 90 days with two incidents and maintenance, and says that they are made up", async (arrive) => {
  const visitor = await arriveOnSite(arrive);
  const status = await visitor.open(STATUS);
  await article(status, "Demo data").getByText(/are made up/).waitFor();
  const availability = status.getByRole("region", { name: /^Uptime/ });
  assert.equal(await availability.getByRole("img").count(), 3, "three rows of 30 days");
  await availability.getByText(/99\.\d+% uptime over the recorded period \(90 days\)/).waitFor();
  const titles = await availability.locator(".hit title").allTextContents();
  assert.equal(titles.length, 90);
  // Today may have just begun.
  assert.deepEqual(titles.slice(0, -1).filter((title) => /no data|Not recorded/.test(title)), []);
  assert.equal(titles.slice(0, -1).filter((title) => !title.includes("100%")).length, 2, "two days with an incident");
  const outage = happenings(status).locator("#incident-1");
  await outage.getByRole("heading", { name: "All shards were down" }).waitFor();
  const phases = await outage.getByRole("list", { name: "Updates" }).locator("strong").allTextContents();
  assert.deepEqual(phases, ["Resolved", "Identified", "Investigating"]);
  await happenings(status).locator("#incident-2").getByRole("heading", { name: "1 of 2 shards was down" }).waitFor();
  await happenings(status).getByRole("listitem").filter({ hasText: "Move to a larger database" }).getByText("Ended").waitFor();
  await article(status, "Database upgrade").getByText("Scheduled").waitFor();

  const home = await visitor.open(HOME);
  await article(home, "Database upgrade").getByText(/^Maintenance · /).waitFor();
  await announcements(home).getByRole("link", { name: "Demo data" }).click();
  await home.waitForURL(/\/site\/status#announcement-\d+$/);
  assert.ok(await isInView(article(home, "Demo data")));
});

visit("an announcement, its update and its end reach open pages without a reload", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  const [home, status] = [await openAndFollow(visitor, HOME), await openAndFollow(visitor, STATUS)];
  const text = "We're on it: https://bot.example/notes?a=1&b=2.";
  const { id } = JSON.parse(await service.command("announce", "Search is slow", "--text", text, "--json"));
  for (const page of [home, status]) await announcements(page).getByRole("heading", { name: "Search is slow" }).waitFor();
  const link = article(status, "Search is slow").getByRole("link");
  assert.equal(await link.getAttribute("href"), "https://bot.example/notes?a=1&b=2");
  assert.equal(
    await announcements(home).getByRole("link", { name: "Search is slow" }).getAttribute("href"),
    `${STATUS}#announcement-${id}`,
  );

  await service.command("announce", "update", String(id), "identified", "--text", "A full disk.");
  const updates = article(status, "Search is slow").getByRole("list", { name: "Updates" });
  await updates.getByText("Identified", { exact: true }).waitFor();
  await updates.getByText("A full disk.").waitFor();
  const told = await service.call("GET", "/site/incidents.json");
  const announced = told.announcements.find((announcement) => announcement.id === id);
  assert.deepEqual([announced.state, announced.updates[0].status], ["active", "identified"]);

  await service.command("announce", "update", String(id), "resolved", "--text", "Fast again.");
  await article(home, "Search is slow").waitFor({ state: "detached" });
  const over = happenings(status).locator(`#announcement-${id}`);
  await over.getByText("Fast again.").waitFor();
  await over.getByText("Ended", { exact: true }).waitFor();
  for (const page of [home, status]) assert.equal(await page.evaluate(() => window.isSamePage), true);
});

visit("maintenance says when it is, in the visitor's own time zone", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive, { bypassCSP: true, timezoneId: "Asia/Kolkata", reducedMotion: "reduce" });
  const begins = new Date(Date.now() + 40 * 86_400_000);
  begins.setUTCHours(20, 0, 0, 0);
  const ends = new Date(begins.getTime() + 30 * 60_000);
  const window = ["--begins", begins.toISOString().slice(0, 16) + "Z", "--ends", ends.toISOString().slice(0, 16) + "Z"];
  const { id } = JSON.parse(await service.command("announce", "maintenance", "New disks", ...window, "--json"));
  const status = await visitor.open(STATUS);
  const card = article(status, "New disks");
  await card.getByText("Scheduled", { exact: true }).waitFor();
  // 20:00 UTC is half past one there.
  await card.getByText(/^Maintenance · .*1:30.*2:00.*\(30 minutes\)$/).waitFor();
  for (const width of WIDTHS) {
    await status.setViewportSize({ width, height: 800 });
    await fitsWindow(status, `status at ${width}`);
    assert.deepEqual(await axe(status), []);
  }
  const feed = await (await fetch(`${service.url}/site/incidents.atom`)).text();
  assert.match(feed, /<title>New disks \(Scheduled\)<\/title>/);
  await service.command("announce", "end", String(id));
  await status.reload();
  await happenings(status).locator(`#announcement-${id}`).getByText("Cancelled", { exact: true }).waitFor();
});

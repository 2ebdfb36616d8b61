// The site with three very different brands.
import assert from "node:assert/strict";
import { HARBOUR, Service, stage } from "../harness.js";
import { BRANDS, settingsOf, variablesOf } from "./brands.js";
import { DASHBOARD, DOCS, HOME, STATUS, THEMES, WIDTHS, arriveOnSite, axe, fitsWindow, isSignedIn, openWhole, signIn, tooSmall } from "./site.js";

for (const brand of BRANDS) {
  const settings = settingsOf(brand);
  const { visit } = stage(brand, async () => {
    const service = await Service.startWith(variablesOf(brand));
    return { service, origin: service.url };
  });
  const hides = (part) => settings.hide?.includes(part) ?? false;
  const pages = [HOME, STATUS, DASHBOARD, ...(settings.features ? ["/site/features"] : []), ...(hides("docs") ? [] : [DOCS])];

  visit(`${brand} is readable in both themes at both widths`, async (arrive) => {
    const visitor = await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce" });
    const found = [];
    for (const path of pages) {
      const page = await openWhole(visitor, path);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        await fitsWindow(page, `${path} at ${width}`);
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await axe(page)).map((line) => `${path} ${width} ${colorScheme}: ${line}`));
        }
      }
      await page.setViewportSize({ width: 360, height: 800 });
      found.push(...(await tooSmall(page)).map((line) => `${path}: ${line}`));
      await page.close();
    }
    assert.deepEqual(found, []);
  });

  visit(`${brand} has its own colour, and only what it shows`, async (arrive, service) => {
    const page = await (await arriveOnSite(arrive)).open(HOME);
    await page.getByRole("heading", { level: 1, name: settings.name }).waitFor();
    const fill = await page.evaluate(() => getComputedStyle(document.querySelector(".button.primary")).backgroundColor);
    const [, red, green, blue] = settings.accent.match(/^#(..)(..)(..)$/).map((part) => parseInt(part, 16));
    assert.equal(fill, `rgb(${red}, ${green}, ${blue})`);
    for (const [part, name] of [["reviews", "What people say"], ["team", "The team"], ["numbers", "In numbers"]]) {
      if (hides(part)) assert.equal(await page.getByRole("heading", { name }).count(), 0, part);
    }
    const navigation = page.getByRole("navigation", { name: "Pages" });
    assert.equal(await page.getByRole("contentinfo").getByRole("link", { name: "API" }).count(), hides("docs") ? 0 : 1);
    assert.equal((await fetch(service.url + DOCS)).status, hides("docs") ? 404 : 200);
    if (!settings.features) return;
    await navigation.getByRole("link", { name: "Features" }).click();
    await page.getByRole("heading", { level: 1, name: "What Moss does" }).waitFor();
    await page.getByRole("row", { name: /\/water/ }).waitFor();
    const { width } = await page.getByRole("article").boundingBox();
    assert.ok(width > 600, `the text is ${width} pixels wide`);
  });

  visit(`${brand}'s servers link to where people manage them, if there is such a page`, async (arrive) => {
    const page = await (await arriveOnSite(arrive)).open(DASHBOARD);
    await signIn(page, "owner");
    await isSignedIn(page);
    const card = page.getByRole("list", { name: "Your servers" }).getByRole("listitem").filter({ hasText: HARBOUR.name });
    await card.waitFor();
    const link = card.getByRole("link", { name: HARBOUR.name });
    if (!settings.manage_url) return assert.equal(await link.count(), 0);
    assert.equal(await link.getAttribute("href"), settings.manage_url.replace("{guild}", HARBOUR.id));
    // The whole card is the link, except for its details.
    const { x, y, width } = await card.boundingBox();
    const at = (left, top) => page.evaluate(([left, top]) => document.elementFromPoint(left, top).closest("a")?.href, [left, top]);
    assert.equal(await at(x + width - 10, y + 10), await link.evaluate((each) => each.href));
    await card.getByText("Your permissions").click();
    await card.getByText("Manage this server").waitFor();
  });
}

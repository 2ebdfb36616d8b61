// Takes a screenshot of every page of the site, at both widths and in both themes, with the demo data of `dev`.
//
//   node screenshots.js FOLDER           all of them
//   node screenshots.js --readme FOLDER  the two of the README
//   node screenshots.js --brands FOLDER  one of each brand
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Service, Visitor, launchBrowser } from "../harness.js";
import { BRANDS, variablesOf } from "./brands.js";
import { PAGES, THEMES, WIDTHS, signIn } from "./site.js";

const args = process.argv.slice(2);
const [kind] = args;
const folder = args.at(-1);

/** Images below the fold are loaded lazily, and a full-page screenshot doesn't scroll to them. */
async function loadPictures(page) {
  await page.evaluate(async () => {
    for (const image of document.images) image.loading = "eager";
    await Promise.all([...document.images].map((image) => image.decode().catch(() => undefined)));
  });
}

/** Signs in and waits for the list of servers. */
async function openServers(page, person) {
  await signIn(page, person);
  await page.locator("#list-row").waitFor();
}

async function takeAll(browser, service) {
  const visitor = await Visitor.arrive(browser, service.url, { reducedMotion: "reduce" });
  const take = async (page, name) => {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      for (const colorScheme of THEMES) {
        await page.emulateMedia({ colorScheme });
        await loadPictures(page);
        await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true, caret: "hide" });
      }
    }
    await page.close();
  };
  for (const [name, path] of Object.entries(PAGES)) await take(await visitor.open(path), name);
  await service.control("PUT", "bot-offline");
  for (const name of ["home", "status"]) await take(await visitor.open(PAGES[name]), `${name}-offline`);
  await service.control("DELETE", "bot-offline");
  for (const person of ["owner", "newcomer", "collector"]) {
    const signedIn = await Visitor.arrive(browser, service.url, { reducedMotion: "reduce" });
    const page = await signedIn.open(PAGES.dashboard);
    await openServers(page, person);
    await take(page, `dashboard-${person}`);
  }
}

async function takeForReadme(browser, service) {
  const visitor = await Visitor.arrive(browser, service.url, { reducedMotion: "reduce", viewport: { width: 1200, height: 750 } });
  const home = await visitor.open(PAGES.home);
  await loadPictures(home);
  await home.screenshot({ path: join(folder, "site-home.png") });
  const dashboard = await visitor.open(PAGES.dashboard);
  // A user whose servers have no emoji in their names, because not every machine has a font for them.
  await openServers(dashboard, "member");
  await loadPictures(dashboard);
  await dashboard.screenshot({ path: join(folder, "site-dashboard.png"), caret: "hide" });
}

/** The home pages of the brands, one of them dark. */
async function takeBrands(browser) {
  for (const brand of BRANDS) {
    const service = await Service.startWith(variablesOf(brand));
    const colorScheme = brand === "arcade" ? "dark" : "light";
    const visitor = await Visitor.arrive(browser, service.url, { reducedMotion: "reduce", viewport: { width: 1200, height: 750 }, colorScheme });
    const home = await visitor.open(PAGES.home);
    await loadPictures(home);
    await home.screenshot({ path: join(folder, `brand-${brand}.png`) });
  }
}

test(`screenshots in ${folder}`, { timeout: 600_000 }, async () => {
  await mkdir(folder, { recursive: true });
  const browser = await launchBrowser();
  if (kind === "--brands") return takeBrands(browser);
  await (kind === "--readme" ? takeForReadme : takeAll)(browser, await Service.start());
});

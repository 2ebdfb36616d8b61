// Takes a screenshot of every page of the site, at both widths and in both themes, with the demo data of `dev`.
//
//   node screenshots.js FOLDER           all of them
//   node screenshots.js --readme FOLDER  the two of the README
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Service, Visitor, launchBrowser } from "../harness.js";
import { PAGES, THEMES, WIDTHS, signIn } from "./site.js";

const args = process.argv.slice(2);
const forReadme = args[0] === "--readme";
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
  await page.getByText(/list was read/).waitFor();
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

test(`screenshots in ${folder}`, { timeout: 600_000 }, async () => {
  await mkdir(folder, { recursive: true });
  const browser = await launchBrowser();
  const service = await Service.start();
  await (forReadme ? takeForReadme : takeAll)(browser, service);
});

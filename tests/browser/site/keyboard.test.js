// The site, used with the keyboard only.
import assert from "node:assert/strict";
import { DASHBOARD, HOME, PAGES, arriveOnSite, isSignedIn, onSite, openWhole, signInButton } from "./site.js";

const site = onSite();
const { visit } = site;

/** The focused element: its name, whether it is visible, and whether its focus ring is. */
const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    if (element === document.body) return undefined;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return {
      name: `${element.tagName.toLowerCase()} ${element.textContent.trim().slice(0, 40) || element.getAttribute("aria-label") || element.name}`,
      index: [...document.querySelectorAll("*")].indexOf(element),
      isInMain: document.querySelector("main").contains(element),
      isInSight: right > 0 && bottom > 0 && left < innerWidth && top < innerHeight,
      isMarked: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
    };
  });

/** What must be reachable by keyboard: visible links, buttons, fields and summaries. */
const reachable = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("a[href], button:not([disabled]), input, select, textarea, summary, [tabindex='0']")]
      .filter((element) => element.checkVisibility({ visibilityProperty: true }) && element.tabIndex >= 0)
      .map((element) => [...document.querySelectorAll("*")].indexOf(element)),
  );

async function press(page, key) {
  await page.keyboard.press(key);
  return focused(page);
}

/** Presses Tab until the focus is on this. */
async function tabTo(page, locator) {
  const wanted = await locator.elementHandle();
  for (let presses = 0; presses < 300; presses += 1) {
    await page.keyboard.press("Tab");
    if (await wanted.evaluate((element) => element === document.activeElement)) return;
  }
  assert.fail(`Tab does not lead to ${locator}`);
}

for (const [name, path] of Object.entries(PAGES)) {
  visit(`Tab reaches everything on ${name} in order, and the focus is seen`, async (arrive) => {
    const visitor = await arriveOnSite(arrive);
    // Nothing changes meanwhile.
    await visitor.context.route("**/live", (route) => route.abort());
    visitor.allow(/\/live: net::ERR_FAILED$/);
    const page = await openWhole(visitor, path);
    const wanted = await reachable(page);
    const skip = await press(page, "Tab");
    assert.equal(skip.name, "a Skip to content");
    const reached = [];
    for (let now = skip; now && reached.length <= wanted.length; now = await press(page, "Tab")) {
      assert.ok(now.isInSight, `${now.name} is out of sight`);
      assert.ok(now.isMarked, `${now.name} does not show that it has the focus`);
      reached.push(now.index);
    }
    assert.deepEqual(reached.toSorted((a, b) => a - b), reached, "the order is that of the page");
    assert.deepEqual(wanted.filter((index) => !reached.includes(index)), [], "not all is reached");
  });
}

visit("the link that skips to the content does", async (arrive) => {
  const page = await (await arriveOnSite(arrive)).open(HOME);
  await press(page, "Tab");
  await page.keyboard.press("Enter");
  const next = await press(page, "Tab");
  assert.ok(next.isInMain, next.name);
});

visit("somebody signs in and out with the keyboard", async (arrive) => {
  const page = await (await arriveOnSite(arrive)).open(DASHBOARD);
  await signInButton(page).waitFor();
  await tabTo(page, signInButton(page));
  await page.keyboard.press("Enter");
  const owner = page.getByRole("link", { name: /\bowner · @/ });
  await owner.waitFor();
  await tabTo(page, owner);
  await page.keyboard.press("Enter");
  await isSignedIn(page);
  await tabTo(page, page.getByRole("button", { name: "Sign out", exact: true }).first());
  await page.keyboard.press("Enter");
  await signInButton(page).waitFor();
});

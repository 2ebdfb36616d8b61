// What the tests and the screenshots of the site share: its pages, and how a person signs in on them.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { Service, stage } from "../harness.js";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export const HOME = "/site/";
export const STATUS = "/site/status";
export const DASHBOARD = "/site/dashboard";
export const DOCS = "/docs";
export const FEED = "/docs/feed";
export const MISSING = "/site/no-such-page";
/** Every page, by a name that fits into the name of a file. */
export const PAGES = { home: HOME, status: STATUS, dashboard: DASHBOARD, docs: DOCS, feed: FEED, error: MISSING };
export const WIDTHS = [360, 1440];
export const THEMES = ["light", "dark"];

/** The service with its site. */
export async function startSite() {
  const service = await Service.start();
  return { service, origin: service.url };
}
/** The same, and a browser. */
export const onSite = () => stage("site", startSite);

/** A visitor of the site whose requests are noted; the error page is no problem. */
export async function arriveOnSite(arrive, options) {
  const visitor = await arrive(options);
  visitor.allow(/^GET \/site\/no-such-page: 404$/);
  // The site opens no dialog; a script that somebody smuggled in would.
  visitor.context.on("page", (page) => page.on("dialog", (dialog) => {
    visitor.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  }));
  visitor.requests = [];
  visitor.context.on("request", (request) => visitor.requests.push(request));
  // Chromium tells of most violations in the console too; this one tells of all.
  await visitor.context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI} ${event.sample}`),
    );
  });
  return visitor;
}

/** Opens a page and waits until its script has put everything in its place: the dashboard shows a sentence until then. */
export async function openWhole(visitor, path) {
  const page = await visitor.open(path);
  await page.locator("#loading").waitFor({ state: "hidden" });
  return page;
}

export const signInButton = (page) => page.getByRole("button", { name: /^Sign in/ }).first();
/** On the sandbox's page, as this person. */
export const choose = (page, person) => page.getByRole("link", { name: new RegExp(`\\b${person} · @`) }).click();

export async function signIn(page, person) {
  await signInButton(page).click();
  await choose(page, person);
}
/** The name of who is signed in. */
export const person = (page, name) => page.getByRole("region", { name: "You" }).getByText(name, { exact: true });
export const isSignedIn = (page) => page.getByRole("button", { name: "Sign out", exact: true }).first().waitFor();

/** How far the page is wider than its window, in pixels. */
export const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** What sticks out of the window, for the message of a failing test. */
export const sticksOut = (page) =>
  page.evaluate(() =>
    [...document.body.querySelectorAll("*")]
      .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
      .map((each) => `${each.tagName.toLowerCase()}.${each.className} ${each.textContent.slice(0, 40)}`)
      .slice(0, 10),
  );

export async function fitsWindow(page, what) {
  const wider = await overflow(page);
  assert.ok(wider <= 0, `${what} is ${wider} pixels wider than its window: ${wider > 0 && (await sticksOut(page)).join("; ")}`);
}

/** What axe-core finds, one line for each element. Its context must have `bypassCSP`. */
export async function axe(page) {
  await page.addScriptTag({ path: AXE });
  return page.evaluate(async () => {
    // All rules, the experimental ones too, but those for level AAA and those that are obsolete.
    const rules = {};
    for (const { ruleId, tags } of window.axe.getRules()) {
      rules[ruleId] = { enabled: !tags.some((tag) => tag.endsWith("aaa") || tag.includes("obsolete")) };
    }
    // It wants no focus on a table that can be scrolled, which another rule asks for.
    rules["focus-order-semantics"] = { enabled: false };
    const { violations } = await window.axe.run(document, { rules, resultTypes: ["violations"] });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} (${help}): ${target} ${failureSummary.split("\n").at(-1).trim()}`),
    );
  });
}

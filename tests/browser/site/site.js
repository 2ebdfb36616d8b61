// Shared by the site's tests and screenshots: its pages, and signing in on them.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { Service, stage, until } from "../harness.js";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

export const HOME = "/site/";
export const STATUS = "/site/status";
export const DASHBOARD = "/site/dashboard";
export const DOCS = "/docs";
export const FEED = "/docs/feed";
export const MISSING = "/site/no-such-page";
/** Every page, by a name that can be used as a file name. */
export const PAGES = { home: HOME, status: STATUS, dashboard: DASHBOARD, docs: DOCS, feed: FEED, error: MISSING };
export const WIDTHS = [360, 1440];
export const LANGUAGES = ["en", "de"];
export const THEMES = ["light", "dark"];

/** The service with its site. */
export async function startSite() {
  const service = await Service.start();
  return { service, origin: service.url };
}
/** The same, and a browser. */
export const onSite = () => stage("site", startSite);

/** A visitor whose requests are recorded; the error page doesn't count as a problem. */
export async function arriveOnSite(arrive, options) {
  const visitor = await arrive(options);
  visitor.allow(/^GET \/site\/no-such-page: 404$/);
  // The site opens no dialogs, but an injected script would.
  visitor.context.on("page", (page) => page.on("dialog", (dialog) => {
    visitor.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  }));
  visitor.requests = [];
  visitor.context.on("request", (request) => visitor.requests.push(request));
  // Chromium prints most violations to the console; this event reports all of them.
  await visitor.context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI} ${event.sample}`),
    );
  });
  return visitor;
}

/** Opens a page and waits until its script is done: until then, the dashboard shows a placeholder. */
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
/** The signed-in user's name. */
export const person = (page, name) => page.getByRole("region", { name: "You" }).getByText(name, { exact: true });
export const isSignedIn = (page) => page.getByRole("button", { name: "Sign out", exact: true }).first().waitFor();

/** How many pixels the page is wider than the window. */
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

/** axe-core's findings, one line per element. The context must have `bypassCSP`. */
export async function axe(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.addScriptTag({ path: AXE });
  return page.evaluate(async () => {
    // All rules, including experimental ones, except level AAA and deprecated rules.
    const rules = {};
    for (const { ruleId, tags } of window.axe.getRules()) {
      rules[ruleId] = { enabled: !tags.some((tag) => tag.endsWith("aaa") || tag.includes("obsolete")) };
    }
    // This rule forbids focus on a scrollable table, which another rule requires.
    rules["focus-order-semantics"] = { enabled: false };
    const { violations } = await window.axe.run(document, { rules, resultTypes: ["violations"] });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} (${help}): ${target} ${failureSummary.split("\n").at(-1).trim()}`),
    );
  });
}

/**
 * Controls that are smaller than 44 pixels, as lines. Links within a sentence are exempt, as in WCAG 2.5.5, and so is the skip link, which
 * only keyboard users see.
 */
export const tooSmall = (page) =>
  page.evaluate(() => {
    const isInSentence = (element) => {
      if (getComputedStyle(element).display !== "inline") return false;
      const around = element.closest("p, li, td, th, dd, dt, h1, h2, h3, h4");
      return around !== null && around.textContent.trim().length > element.textContent.trim().length + 3;
    };
    return [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
      .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.matches(".skip") && !isInSentence(element))
      .flatMap((element) => {
        // A link may cover its card.
        const covered = element.matches(".whole-card") ? element.closest(".card") : element;
        const { width, height } = covered.getBoundingClientRect();
        const name = `${element.tagName.toLowerCase()} ${element.textContent.trim().slice(0, 40) || element.id}`;
        return Math.min(width, height) < 43.9 ? [`${name}: ${Math.round(width)} × ${Math.round(height)}`] : [];
      });
  });

/** How many tabs hold the stream or wait for it. */
export const followers = (page) =>
  page.evaluate(async () => {
    const { held, pending } = await navigator.locks.query();
    return held.length + pending.length;
  });

/** Opens a page of a visitor and waits until it follows, so that it misses no change from then on. Only the first page has a stream. */
export async function openAndFollow(visitor, path) {
  const open = visitor.context.pages().length;
  const stream = open === 0 && visitor.context.waitForEvent("response", (response) => response.url().endsWith("/live"));
  const page = await visitor.open(path);
  await stream;
  await until("the page follows", async () => (await followers(page)) === open + 1);
  await page.evaluate(() => (window.isSamePage = true));
  return page;
}

/** Shows another view of the dashboard. */
export const view = (page, name) => page.getByRole("navigation", { name: "Dashboard" }).getByRole("link", { name }).click();

// Hostile or emoji-filled names and texts arrive through the feed like any others. No script in them runs, and no page
// breaks.
import assert from "node:assert/strict";
import { HARBOUR } from "../harness.js";
import { DASHBOARD, HOME, PAGES, STATUS, THEMES, WIDTHS, arriveOnSite, axe, fitsWindow, isSignedIn, onSite, signIn } from "./site.js";

const IMAGE = '<img src=x onerror="window.hit=1;alert(1)">';
const SCRIPT = '"><script>window.hit=1;alert(2)</script>';
const BACKWARDS = "\u202Enoitcerid rehto eht";
const EMOJI = "😀".repeat(100);
const UNBROKEN = "W".repeat(100);
const CATEGORY = "<img/src=x/onerror=alert(1)>";
const LONG = `${IMAGE}${SCRIPT}${"long".repeat(980)}`.slice(0, 4_000);

// The home page shows three.
const TEXTS = [LONG, `${EMOJI}${EMOJI}'); alert(3); ('${"\n".repeat(200)}end`, `${BACKWARDS} ${IMAGE} ${UNBROKEN.repeat(10)}`];
const NAMES = [IMAGE, SCRIPT, BACKWARDS, EMOJI, UNBROKEN];

const site = onSite();
const { visit } = site;

async function botSaysHostileThings(service) {
  const own = await service.as("owner");
  const ids = (await own.get("/guilds")).map((guild) => guild.id);
  const guilds = ids.map((id, index) => ({ id, owner: HARBOUR.owner, name: NAMES[index], members: 18_446_744_073_709 }));
  await service.botTakesOver(...guilds);
  const person = (index) => ({ id: String(600_000_000_000_000_000n + BigInt(index)), username: "somebody", name: NAMES[index] });
  for (const [index, text] of TEXTS.entries()) {
    const submitter = { ...person(index), avatar: "https://tracker.example/pixel.png" };
    await service.botEvent({ type: "feedback", id: `hostile-${index}`, feedback: text, rating: 5, timestamp: 1_767_225_600, submitter });
  }
  const members = NAMES.map((name, index) => {
    const { id, username } = person(index);
    return { discord_id: id, username, name, role: NAMES.at(-1 - index), color: "#ffffff", category: index < 2 ? CATEGORY : "support", position: index + 1, avatar: "https://tracker.example/pixel.png", permissions: [] };
  });
  await service.botEvent({ type: "team", members });
  await service.command("announce", IMAGE + SCRIPT, "--text", LONG);
  return guilds.map((guild) => guild.name);
}

/** No script has run, no foreign server was contacted, and no name became an element. */
async function isHarmless(visitor, page, service) {
  assert.equal(await page.evaluate(() => window.hit), undefined, "a script of a name has run");
  assert.equal(await page.locator('main script:not([type="application/json"]), [onerror], img[src=x]').count(), 0);
  const ours = [new URL(service.url).host, new URL(service.sandbox).host];
  for (const request of visitor.requests) assert.ok(ours.includes(new URL(request.url()).host), `${request.url()} is a stranger's`);
}

visit("hostile names and reviews are text, and no page falls apart", async (arrive, service) => {
  const guilds = await botSaysHostileThings(service);
  const visitor = await arriveOnSite(arrive);
  const home = await visitor.open(HOME);
  for (const text of TEXTS) {
    const shown = await home.locator("blockquote").allTextContents();
    assert.ok(shown.includes(text), `${text.slice(0, 60)} is not among the reviews: ${shown.map((each) => each.slice(0, 60))}`);
  }
  const team = await home.getByRole("region", { name: "The team" }).textContent();
  for (const name of NAMES) assert.ok(team.includes(name), name);
  const dashboard = await visitor.open(DASHBOARD);
  await signIn(dashboard, "owner");
  await isSignedIn(dashboard);
  for (const name of guilds) await dashboard.getByRole("main").getByText(name).first().waitFor();
  const status = await visitor.open(STATUS);
  await status.getByRole("heading", { name: IMAGE + SCRIPT }).waitFor();
  await status.getByText(LONG, { exact: true }).waitFor();
  for (const page of [home, dashboard, status]) {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      await fitsWindow(page, `${page.url()} at ${width}`);
    }
    await isHarmless(visitor, page, service);
  }
});

visit("axe finds nothing on a home page with hostile names", async (arrive, service) => {
  assert.equal((await service.call("GET", "/team")).length, NAMES.length, "the test before this one has sent them");
  const visitor = await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce" });
  const page = await visitor.open(PAGES.home);
  const found = [];
  for (const colorScheme of THEMES) {
    await page.emulateMedia({ colorScheme });
    found.push(...(await axe(page)).map((line) => `${colorScheme}: ${line}`));
  }
  assert.deepEqual(found, []);
});

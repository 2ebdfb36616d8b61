// Requirements for every page of the site.
import assert from "node:assert/strict";
import { LANGUAGES, THEMES, DASHBOARD, DOCS, FEED, HOME, PAGES, STATUS, WIDTHS, arriveOnSite, axe, fitsWindow, isSignedIn, onSite, openAndFollow, openWhole, signIn, tooSmall } from "./site.js";

/** The maximum transfer size of a page with all its resources except images. */
const LARGEST = 60_000;

const site = onSite();
const { visit } = site;

for (const [name, path] of Object.entries(PAGES)) {
  visit(`axe finds nothing on ${name}, and it fits, in both languages and themes at both widths`, async (arrive) => {
    const found = [];
    for (const locale of LANGUAGES) {
      const visitor = await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce", locale });
      const page = await openWhole(visitor, path);
      assert.equal(await page.getAttribute("html", "lang"), locale);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        await fitsWindow(page, `${name} in ${locale} at ${width}`);
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await axe(page)).map((line) => `${locale} ${width} ${colorScheme}: ${line}`));
        }
      }
    }
    assert.deepEqual(found, []);
  });

  visit(`${name} is light and small, and asks nobody but the service and the sandbox`, async (arrive, service) => {
    const visitor = await arriveOnSite(arrive);
    const page = await openWhole(visitor, path);
    const ours = [new URL(service.url).host, new URL(service.sandbox).host];
    let sum = 0;
    for (const request of visitor.requests) {
      assert.ok(ours.includes(new URL(request.url()).host), `${request.url()} is a stranger's`);
      // The live stream doesn't end, and images aren't counted.
      if (["eventsource", "image"].includes(request.resourceType()) || request.url().endsWith("/live")) continue;
      const { responseBodySize, responseHeadersSize } = await request.sizes();
      sum += responseBodySize + responseHeadersSize;
    }
    assert.ok(sum > 1_000, `${name}: only ${sum} bytes were counted`);
    assert.ok(sum <= LARGEST, `${name} takes ${sum} bytes`);
  });
}

for (const [name, path] of Object.entries(PAGES)) {
  visit(`everything on ${name} is large enough for a finger`, async (arrive) => {
    for (const locale of LANGUAGES) {
      const visitor = await arriveOnSite(arrive, { viewport: { width: 360, height: 800 }, hasTouch: true, isMobile: true, locale });
      assert.deepEqual(await tooSmall(await openWhole(visitor, path)), []);
    }
  });
}

visit("axe finds nothing on the sandbox's pages", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive, { bypassCSP: true, origin: service.sandbox });
  for (const path of ["/", "/control"]) assert.deepEqual(await axe(await visitor.open(path)), [], path);
});

for (const path of [STATUS, DOCS]) {
  visit(`${path} can be printed: dark on white, unfolded, without controls`, async (arrive) => {
    const page = await openWhole(await arriveOnSite(arrive, { colorScheme: "dark" }), path);
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    const [ink, paper] = await page.evaluate(() => {
      const { color, backgroundColor } = getComputedStyle(document.body);
      return [color, backgroundColor].map((each) => each.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0));
    });
    assert.ok(ink < 150 && paper === 765, `ink ${ink} on paper ${paper}`);
    for (const clickable of ["nav", "button", "input", "select"]) {
      assert.equal(await page.locator(clickable).filter({ visible: true }).count(), 0, `${clickable} is on paper`);
    }
    // The chart is printed, so its table isn't.
    for (const folded of await page.locator("details > :not(summary)").all()) {
      const isShown = await folded.evaluate((element) => element.closest(".contents, .chart") !== null || element.getBoundingClientRect().height > 0);
      assert.ok(isShown, `what is folded on the screen is printed: ${await folded.evaluate((element) => element.outerHTML.slice(0, 200))}`);
    }
    assert.ok((await page.pdf()).length > 10_000);
  });
}

visit("forced colours show which page and tab is open, and the state of each shard", async (arrive) => {
  const visitor = await arriveOnSite(arrive, { forcedColors: "active" });
  const border = (link) => link.evaluate((element) => getComputedStyle(element).borderTopWidth);
  const page = await openWhole(visitor, DASHBOARD);
  await signIn(page, "owner");
  await isSignedIn(page);
  for (const [navigation, current, other] of [["Dashboard", /Your servers/, "Sessions"], ["Pages", "Dashboard", "Status"]]) {
    const links = page.getByRole("navigation", { name: navigation });
    assert.equal(await border(links.getByRole("link", { name: current })), "2px", navigation);
    assert.notEqual(await border(links.getByRole("link", { name: other })), "2px", navigation);
  }
  await page.goto(new URL(STATUS, page.url()).href);
  await page.locator("#technical > summary").click();
  const dots = await page.locator(".tiles li").evaluateAll((tiles) => tiles.map((tile) => getComputedStyle(tile, "::before").backgroundColor));
  const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.ok(dots.length > 0 && dots.every((colour) => colour !== paper), `${dots} on ${paper}`);
});

visit("visitors choose a language and a theme, and the site remembers both", async (arrive) => {
  const visitor = await arriveOnSite(arrive, { colorScheme: "light" });
  const page = await visitor.open(STATUS);
  const isDark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === "rgb(18, 20, 26)");
  await page.getByRole("link", { name: "Deutsch" }).click();
  await page.getByRole("navigation", { name: "Seiten" }).getByRole("link", { name: "Start", exact: true }).waitFor();
  assert.equal(new URL(page.url()).pathname + new URL(page.url()).search, STATUS, "the address stays the page's own");
  assert.equal(await isDark(), false);
  await page.getByRole("combobox", { name: "Design" }).selectOption("Dunkel");
  assert.equal(await isDark(), true);
  const home = await visitor.open(HOME);
  assert.equal(await home.getAttribute("html", "lang"), "de");
  assert.equal(await home.getAttribute("html", "data-theme"), "dark");
  await home.getByRole("link", { name: "English" }).click();
  await home.getByRole("combobox", { name: "Theme" }).selectOption("System");
  await home.reload();
  assert.equal(await home.getAttribute("html", "data-theme"), null);
  assert.equal(await home.getAttribute("html", "lang"), "en");
});

visit("visitors can choose a language without JavaScript", async (arrive) => {
  const page = await (await arriveOnSite(arrive, { javaScriptEnabled: false })).open(HOME);
  await page.getByRole("link", { name: "Deutsch" }).click();
  await page.getByRole("heading", { name: "Das Team" }).waitFor();
  assert.equal(await page.getByRole("combobox").count(), 0, "controls that need a script are hidden");
});

visit("a link to the site has a preview that chat apps can show", async (arrive, service) => {
  const page = await (await arriveOnSite(arrive)).open(STATUS);
  const meta = (name) => page.locator(`meta[property="${name}"], meta[name="${name}"]`).first().getAttribute("content");
  assert.equal(await meta("og:site_name"), "Lantern");
  const image = await meta("og:image");
  assert.ok(image.startsWith(`${service.url}/`), image);
  const answer = await fetch(image);
  assert.equal(answer.headers.get("content-type"), "image/png");
  const size = await page.evaluate(async (address) => {
    const picture = Object.assign(new Image(), { src: address });
    await picture.decode();
    return [picture.naturalWidth, picture.naturalHeight];
  }, image);
  assert.deepEqual(size, [1200, 630]);
  assert.match(await meta("theme-color"), /^#[0-9a-f]{6}$/);
  const touch = await page.locator("link[rel=apple-touch-icon]").getAttribute("href");
  for (const path of [touch, "/favicon.ico"]) {
    assert.equal((await fetch(service.url + path)).headers.get("content-type"), "image/png", path);
  }
  assert.match(await (await fetch(`${service.url}/robots.txt`)).text(), /^User-agent: \*\nAllow: \/site\/\n/);
});

visit("dark is dark, and light is light", async (arrive) => {
  const visitor = await arriveOnSite(arrive);
  const page = await visitor.open(HOME);
  const brightness = () =>
    page.evaluate(() => {
      const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return red + green + blue;
    });
  await page.emulateMedia({ colorScheme: "dark" });
  assert.ok((await brightness()) < 150);
  await page.emulateMedia({ colorScheme: "light" });
  assert.ok((await brightness()) > 600);
});

visit("without JavaScript the pages can be read, and the dashboard says why it cannot work", async (arrive) => {
  const visitor = await arriveOnSite(arrive, { javaScriptEnabled: false });
  // Chromium's message for a script that isn't preloaded.
  visitor.allow(/\/(companion|tabs)\.[0-9a-f]+\.js: csp$/);
  const home = await visitor.open(HOME);
  await home.getByRole("heading", { name: "The bot is up", exact: true }).waitFor();
  await home.getByRole("heading", { name: "The team" }).waitFor();
  await home.getByRole("link", { name: "Details and history" }).click();
  await home.waitForURL(`**${STATUS}`);
  await home.getByRole("heading", { level: 1, name: "Status" }).waitFor();
  await home.getByRole("heading", { name: "Technical details" }).click();
  await home.getByText("2 of 2 shards are up.").waitFor();
  await home.getByRole("textbox", { name: "Server ID" }).fill("871203344918732833");
  await home.getByRole("button", { name: "Look up" }).click();
  await home.getByText(/is on shard [01]/i).waitFor();
  const docs = await visitor.open(DOCS);
  await docs.getByRole("main").getByText("/guilds").first().waitFor();
  const feed = await visitor.open(FEED);
  await feed.getByRole("main").getByText("PUT /bot/heartbeat").first().waitFor();
  const dashboard = await visitor.open(DASHBOARD);
  // Playwright's text selectors never match inside a <noscript>.
  const why = dashboard.locator("noscript h2");
  await why.waitFor();
  assert.match(await why.textContent(), /needs JavaScript/);
  await home.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Home" }).click();
  await home.waitForURL(`**${HOME}`);
});

visit("a browser that prefers German is spoken to in German, on every page", async (arrive) => {
  const visitor = await arriveOnSite(arrive, { locale: "de-DE" });
  for (const path of Object.values(PAGES)) {
    const page = await visitor.open(path);
    assert.equal(await page.getAttribute("html", "lang"), "de", path);
    await page.getByRole("navigation", { name: "Seiten" }).getByRole("link", { name: "Start", exact: true }).waitFor();
    await page.close();
  }
  const page = await visitor.open(HOME);
  await page.getByRole("heading", { name: "Der Bot ist online", exact: true }).waitFor();
  await page.getByRole("heading", { name: "Das Team" }).waitFor();
});

visit("home shows how the bot does, numbers, reviews and the team", async (arrive, service) => {
  const page = await (await arriveOnSite(arrive)).open(HOME);
  await page.getByRole("heading", { level: 1, name: "Lantern" }).waitFor();
  await page.getByRole("heading", { name: "The bot is up", exact: true }).waitFor();
  const stats = await service.call("GET", "/stats");
  for (const [label, number] of [["servers", stats.guilds], ["members", stats.members]]) {
    const shown = page.locator("dl div").filter({ has: page.getByText(label, { exact: true }) });
    assert.equal(await shown.getByRole("definition").textContent(), number.toLocaleString("en"));
  }
  const reviews = page.getByRole("region", { name: "What people say" }).getByRole("listitem");
  assert.equal(await reviews.count(), 3);
  for (const review of await reviews.all()) {
    await review.getByRole("img", { name: /^[1-5] out of 5 stars$/ }).waitFor();
    assert.ok((await review.getByRole("blockquote").textContent()).length > 5);
  }
  const does = page.getByRole("region", { name: "What it does" });
  assert.equal(await does.getByRole("heading", { level: 3 }).count(), 6);
  await does.getByText("Greets new members").waitFor();
  const team = page.getByRole("region", { name: "The team" });
  for (const { name, role } of await service.call("GET", "/team")) {
    await team.getByRole("listitem").filter({ hasText: name }).filter({ hasText: role }).waitFor();
  }
});

visit("a page that is not there says so and leads back", async (arrive) => {
  const page = await (await arriveOnSite(arrive)).open(PAGES.error);
  await page.getByRole("heading", { name: "This page doesn't exist" }).waitFor();
  await page.getByRole("link", { name: "Go to the home page" }).click();
  await page.getByRole("heading", { level: 1, name: "Lantern" }).waitFor();
});

visit("a bot that goes down and comes back is seen without a reload", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  const [home, status] = [await openAndFollow(visitor, HOME), await openAndFollow(visitor, STATUS)];
  await service.control("PUT", "bot-offline");
  await home.getByRole("heading", { name: "The bot is down", exact: true }).waitFor();
  await status.getByRole("heading", { name: "The bot is down", exact: true }).waitFor();
  await service.control("DELETE", "bot-offline");
  for (const page of [home, status]) await page.getByRole("heading", { name: "The bot is up", exact: true }).waitFor();
  for (const page of [home, status]) assert.equal(await page.evaluate(() => window.isSamePage), true);
});

visit("badges are pictures that other sites may show", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  const page = await visitor.open("/badge/status.svg");
  await page.getByText("up", { exact: true }).waitFor();
  for (const name of ["status", "shards", "guilds"]) {
    const { schemaVersion, message } = await (await fetch(`${service.url}/badge/${name}.json`)).json();
    assert.equal(schemaVersion, 1);
    assert.ok(message.length > 0);
  }
});

// The dashboard code in README.md and docs/dashboard.md, run as printed; only the service's address differs.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { HARBOUR, Service, Visitor, launchBrowser, makeFolder, servePages, stage, until } from "./harness.js";

const timeout = 600_000;
const ADDRESS = "http://127.0.0.1:8080";

/** The JavaScript in a section of a document. */
async function blocksOf(document, heading) {
  const text = await readFile(new URL(`../../${document}`, import.meta.url), "utf8");
  const section = text.split(`\n${heading}\n`)[1].split(/\n##+ /)[0];
  return [...section.matchAll(/^```js\n([^]*?)^```$/gm)].map((match) => match[1]);
}

const blocks = [...(await blocksOf("README.md", "## Build a dashboard")), ...(await blocksOf("docs/dashboard.md", "### Without a package"))];
const client = await readFile(new URL("../../sdk/web/dist/companion.min.js", import.meta.url), "utf8");

test("the client needs five lines of code, and the other code needs no package", () => {
  assert.equal(blocks.length, 2);
  assert.equal(blocks[0].trim().split("\n").length, 5);
  assert.ok(!blocks[1].includes("import"));
  for (const block of blocks) assert.ok(block.includes(ADDRESS));
});

const page = (code) => `<!doctype html>
<html lang="en"><title>README</title><link rel="icon" href="data:,">
<script type="importmap">{ "imports": { "@bot-companion/web": "/companion.js" } }</script>
<button>Sign in</button>
<script type="module">${code}</script>`;

let browser;
before(async () => {
  browser = await launchBrowser();
}, { timeout });

for (const [name, code] of [["with the client", blocks[0]], ["without a package", blocks[1]]]) {
  let service, origin;
  before(async () => {
    origin = await servePages((path) => (path === "/companion.js" ? client : page(code.replaceAll(ADDRESS, service.url))));
    service = await Service.start(`${origin}/callback`);
  }, { timeout });

  /** A test with a visitor, their pages' events and the console output. */
  const visit = (title, scenario) =>
    test(`README, ${name}: ${title}`, { timeout }, async () => {
      const visitor = await Visitor.arrive(browser, origin);
      const [told, logged] = [[], []];
      visitor.context.on("dialog", async (dialog) => {
        told.push(dialog.message());
        await dialog.accept();
      });
      visitor.context.on("console", async (message) => {
        if (message.type() === "log") logged.push(await message.args()[0].jsonValue());
      });
      const hears = (pattern) => until(`a message matches ${pattern}`, () => told.some((message) => pattern.test(message)));
      const lists = (count) => until("the guilds are listed", () => logged.length === count && logged.at(-1)[0]?.name === HARBOUR.name);
      const member = await service.as("member");
      const before = (await member.get("/sessions")).length;
      const hasSignedNoOneIn = async () => {
        assert.equal((await member.get("/sessions")).length, before, "the code wasn't used");
        assert.deepEqual(await visitor.context.storageState().then(({ origins }) => origins), [], "nothing is stored");
        assert.deepEqual(logged, []);
      };
      try {
        await scenario({ visitor, hears, lists, hasSignedNoOneIn, told });
        await visitor.check();
      } finally {
        await visitor.leave();
        await service.control("DELETE", "");
      }
    });
  const startSignIn = (tab) => tab.getByRole("button", { name: "Sign in" }).click();
  const choose = (tab, person) => tab.getByRole("link", { name: new RegExp(`\\b${person} · @`) }).click();

  visit("signs in, and stays signed in after a reload and in a second tab", async ({ visitor, lists, told }) => {
    const tab = await visitor.open();
    await startSignIn(tab);
    await choose(tab, "owner");
    await lists(1);
    assert.equal(new URL(tab.url()).search, "");
    await tab.reload();
    await lists(2);
    await visitor.open();
    await lists(3);
    assert.deepEqual(told, []);
  });

  // The client ignores a code without one of its own `state` values.
  const isClient = name === "with the client";
  const strangers = isClient ? [`?code=member&state=bc_${"a".repeat(43)}`] : ["?code=member", "?code=member&state=", "?code=member&state=a-strangers"];
  for (const search of strangers) {
    visit(`opening /callback${search} from someone else's sign-in signs no one in`, async ({ visitor, hears, hasSignedNoOneIn }) => {
      await visitor.open(`/callback${search}`);
      await hears(/didn't start in this tab/);
      await hasSignedNoOneIn();
    });
  }

  visit("a wrong state signs no one in, even after a sign-in was started", async ({ visitor, hears, hasSignedNoOneIn }) => {
    const tab = await visitor.open();
    await startSignIn(tab);
    await tab.getByRole("heading", { name: "Who do you want to sign in as?" }).waitFor();
    const asked = new URL(tab.url()).searchParams;
    assert.match(asked.get("state"), isClient ? /^bc_[\w-]{43}$/ : /^[\w-]{43}$/);
    assert.equal(asked.get("code_challenge_method"), "S256");
    await tab.goto(`${asked.get("redirect_uri")}?code=member&state=bc_wrong`);
    await hears(/didn't start in this tab/);
    await hasSignedNoOneIn();
  });

  visit("a user who cancels sees a message and can sign in afterwards", async ({ visitor, hears, lists }) => {
    const tab = await visitor.open();
    await startSignIn(tab);
    await tab.getByRole("link", { name: "Cancel" }).click();
    await hears(/You cancelled/);
    await startSignIn(tab);
    await choose(tab, "owner");
    await lists(1);
  });

  visit("the provider is down", async ({ visitor, hears, hasSignedNoOneIn }) => {
    const tab = await visitor.open();
    visitor.allow(/^POST \/auth: 502$/);
    await service.control("PUT", "provider-down");
    await startSignIn(tab);
    await choose(tab, "member");
    await hears(/./);
    await hasSignedNoOneIn();
  });
}

// The React code in the client's README, bundled like a project would.
const sdk = fileURLToPath(new URL("../../sdk/web/", import.meta.url));
const react = stage("sdk/web/README.md, React", async () => {
  const [, code] = /^```[jt]sx\n([^]*?)^```$/m.exec(await readFile(join(sdk, "README.md"), "utf8"));
  let bundle = "";
  const origin = await servePages((path) => (path === "/bundle.js" ? bundle : `<!doctype html><html lang="en"><title>README</title><link rel="icon" href="data:,"><div id="root"></div><script src="/bundle.js"></script>`));
  const service = await Service.start(`${origin}/callback`);
  const entry = join(await makeFolder(), "readme.tsx");
  await writeFile(entry, code.replaceAll("https://companion.example.org", service.url));
  const { build } = createRequire(join(sdk, "package.json"))("esbuild");
  const alias = Object.fromEntries(["index", "react", "tabs"].map((name) => [name === "index" ? "@bot-companion/web" : `@bot-companion/web/${name}`, join(sdk, "dist/esm", `${name}.js`)]));
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, jsx: "automatic", alias, nodePaths: [join(sdk, "node_modules")], define: { "process.env.NODE_ENV": '"development"' } });
  bundle = outputFiles[0].text;
  return { service, origin };
});
const signInButton = (page) => page.getByRole("button", { name: "Sign in" });

react.visit("signs in and returns to the page where the user was", async (arrive) => {
  const page = await (await arrive()).open("/servers?sort=name");
  await signInButton(page).click();
  await page.getByRole("link", { name: /\bowner · @/ }).click();
  await page.getByText(HARBOUR.name, { exact: true }).waitFor();
  assert.equal(new URL(page.url()).pathname + new URL(page.url()).search, "/servers?sort=name");
  await page.getByRole("button", { name: "Sign out" }).click();
  await signInButton(page).waitFor();
});

react.visit("Cancel, Back, approve", async (arrive) => {
  const page = await (await arrive()).open("/");
  await signInButton(page).click();
  await page.getByRole("link", { name: "Cancel" }).click();
  await page.getByText("You cancelled the sign-in.").waitFor();
  await page.goBack();
  await page.getByRole("link", { name: /\bowner · @/ }).click();
  await page.getByText(HARBOUR.name, { exact: true }).waitFor();
});

react.visit("a page's own code stays in its URL", async (arrive, service) => {
  const own = await service.as("member");
  const before = (await own.get("/sessions")).length;
  const page = await (await arrive()).open("/voucher?code=member");
  await signInButton(page).waitFor();
  assert.equal(new URL(page.url()).search, "?code=member");
  assert.equal((await own.get("/sessions")).length, before);
});

react.visit("signing out offline ends the session once the browser is back online", async (arrive, service) => {
  const own = await service.as("manager");
  const before = (await own.get("/sessions")).length;
  const visitor = await arrive();
  visitor.allow(/ERR_INTERNET_DISCONNECTED|uncaught: /);
  const page = await visitor.open("/");
  await signInButton(page).click();
  await page.getByRole("link", { name: /\bmanager · @/ }).click();
  await page.getByText(HARBOUR.name, { exact: true }).waitFor();
  assert.equal((await own.get("/sessions")).length, before + 1);
  await visitor.context.setOffline(true);
  await page.getByRole("button", { name: "Sign out" }).click();
  await signInButton(page).waitFor();
  await visitor.context.setOffline(false);
  await until("the session has ended", async () => (await own.get("/sessions")).length === before);
});

// The dashboard code in README.md and docs/dashboard.md, run as printed; only the service's address differs.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { HARBOUR, Service, Visitor, launchBrowser, servePages, until } from "./harness.js";

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

test("the client's code is five lines, and the other code needs no package", () => {
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
      const hears = (pattern) => until(`${pattern} is told`, () => told.some((message) => pattern.test(message)));
      const lists = (count) => until("the guilds are listed", () => logged.length === count && logged.at(-1)[0]?.name === HARBOUR.name);
      const member = await service.as("member");
      const before = (await member.get("/sessions")).length;
      const hasSignedNobodyIn = async () => {
        assert.equal((await member.get("/sessions")).length, before, "the code was not used");
        assert.deepEqual(await visitor.context.storageState().then(({ origins }) => origins), [], "nothing is stored");
        assert.deepEqual(logged, []);
      };
      try {
        await scenario({ visitor, hears, lists, hasSignedNobodyIn, told });
        await visitor.check();
      } finally {
        await visitor.leave();
        await service.control("DELETE", "");
      }
    });
  const begin = (tab) => tab.getByRole("button", { name: "Sign in" }).click();
  const choose = (tab, person) => tab.getByRole("link", { name: new RegExp(`\\b${person} · @`) }).click();

  visit("signs in, also after a reload and in a second tab", async ({ visitor, lists, told }) => {
    const tab = await visitor.open();
    await begin(tab);
    await choose(tab, "owner");
    await lists(1);
    assert.equal(new URL(tab.url()).search, "");
    await tab.reload();
    await lists(2);
    await visitor.open();
    await lists(3);
    assert.deepEqual(told, []);
  });

  for (const search of ["?code=member", "?code=member&state=", "?code=member&state=a-strangers"]) {
    visit(`opening /callback${search}, a stranger's, signs nobody in`, async ({ visitor, hears, hasSignedNobodyIn }) => {
      await visitor.open(`/callback${search}`);
      await hears(/begin|begun/);
      await hasSignedNobodyIn();
    });
  }

  visit("a wrong state signs nobody in, though a sign-in was begun", async ({ visitor, hears, hasSignedNobodyIn }) => {
    const tab = await visitor.open();
    await begin(tab);
    await tab.getByRole("heading", { name: "Who do you want to sign in as?" }).waitFor();
    const asked = new URL(tab.url()).searchParams;
    assert.match(asked.get("state"), /^[\w-]{43}$/);
    assert.equal(asked.get("code_challenge_method"), "S256");
    await tab.goto(`${asked.get("redirect_uri")}?code=member&state=wrong`);
    await hears(/begin|begun/);
    await hasSignedNobodyIn();
  });

  visit("who cancels is told so and can sign in afterwards", async ({ visitor, hears, lists }) => {
    const tab = await visitor.open();
    await begin(tab);
    await tab.getByRole("link", { name: "Cancel" }).click();
    await hears(/You did not/);
    await begin(tab);
    await choose(tab, "owner");
    await lists(1);
  });

  visit("the provider is down", async ({ visitor, hears, hasSignedNobodyIn }) => {
    const tab = await visitor.open();
    visitor.allow(/^POST \/auth: 502$/);
    await service.control("PUT", "provider-down");
    await begin(tab);
    await choose(tab, "member");
    await hears(/./);
    await hasSignedNobodyIn();
  });
}

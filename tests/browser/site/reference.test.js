// The reference at /docs, as a developer uses it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { DOCS, THEMES, WIDTHS, arriveOnSite, axe, fitsWindow, onSite } from "./site.js";

const { visit } = onSite();

const operation = (page, id) => page.locator(`#${id}`);

visit("code is in three languages, and the choice holds for all routes and the next visit", async (arrive, service) => {
  const visitor = await arriveOnSite(arrive);
  const page = await visitor.open(`${DOCS}#getTeam`);
  const team = operation(page, "getTeam");
  await team.getByText(`curl -sS ${service.url}/team`).waitFor();
  await team.getByText("Python", { exact: true }).click();
  await team.getByText(`requests.get("${service.url}/team"`).waitFor();
  assert.equal(await team.getByText("curl -sS").isVisible(), false);
  await team.getByText("JavaScript", { exact: true }).click();
  await team.getByText(`await fetch("${service.url}/team")`).waitFor();
  await page.goto(`${service.url}${DOCS}#listGuilds`);
  await page.reload();
  await operation(page, "listGuilds").getByText(`await fetch("${service.url}/guilds"`).waitFor();
});

/** The code of every route in this language, by the route's ID. */
const calls = (page, language) =>
  page.locator(`[data-call="${language}"] code`).evaluateAll((codes) => codes.map((code) => [code.closest("article").id, code.textContent]));

visit("the code of every route can be run", async (arrive) => {
  const page = await (await arriveOnSite(arrive)).open(DOCS);
  const javascript = await calls(page, "JavaScript");
  assert.ok(javascript.length > 20);
  const AsyncFunction = (async () => {}).constructor;
  for (const [id, code] of javascript) assert.doesNotThrow(() => new AsyncFunction(code), `${id}: ${code}`);
  // What needs no credentials answers as the page says.
  const readable = javascript.filter(([id]) => ["getTeam", "getStatus", "getStats", "listFeedback", "getOpenApiDocument"].includes(id));
  for (const [id, code] of readable) {
    const data = await page.evaluate(`(async () => {\n${code}\nreturn data;\n})()`);
    assert.ok(Object.keys(data).length > 1, id);
  }
  assert.equal(readable.length, 5);
  const check = "import ast, json, sys\nfor id, code in json.load(sys.stdin): ast.parse(code, id)";
  execFileSync(process.env.PYTHON ?? "python3", ["-c", check], { input: JSON.stringify(await calls(page, "Python")) });
});

visit("an example stands beside the text where there is room, and below it elsewhere", async (arrive) => {
  const page = await (await arriveOnSite(arrive)).open(`${DOCS}#listGuilds`);
  const place = async (selector) => operation(page, "listGuilds").locator(selector).first().boundingBox();
  await page.setViewportSize({ width: 1440, height: 900 });
  const [text, example] = [await place(".facts"), await place(".samples")];
  assert.ok(example.x >= text.x + text.width, "beside");
  // In colour, without a library.
  const colours = await operation(page, "listGuilds").locator(".samples .k, .samples .s").evaluateAll((parts) => parts.map((part) => getComputedStyle(part).color));
  assert.ok(new Set(colours).size > 1, "keys and strings differ");
  await page.setViewportSize({ width: 360, height: 800 });
  const [narrowText, narrowExample] = [await place(".facts"), await place(".samples")];
  assert.ok(narrowExample.y < narrowText.y && narrowExample.x === narrowText.x, "above");
});

visit("each of the 20 permission keys is explained, in both languages", async (arrive) => {
  for (const [locale, expected] of [["en-GB", "Moderates this server"], ["de-DE", "Moderiert diesen Server"]]) {
    const page = await (await arriveOnSite(arrive, { locale })).open(`${DOCS}#listGuilds`);
    const rows = operation(page, "listGuilds").locator(".facts tr").filter({ hasText: /permissions\.[A-Z_]+/ });
    assert.equal(await rows.count(), 20);
    for (const row of await rows.all()) assert.ok((await row.locator("td").last().textContent()).length > 15);
    await rows.filter({ hasText: /permissions\.MOD(?![A-Z_])/ }).getByText(expected).waitFor();
  }
});

visit("every route is open, and the filter leaves those that match", async (arrive) => {
  for (const javaScriptEnabled of [true, false]) {
    const page = await (await arriveOnSite(arrive, { javaScriptEnabled })).open(DOCS);
    for (const id of ["getTeam", "listGuilds", "sendHeartbeat"]) await operation(page, id).waitFor();
  }
  const page = await (await arriveOnSite(arrive)).open(DOCS);
  await page.locator(".contents.beside input").fill("heartbeat");
  await operation(page, "listGuilds").waitFor({ state: "hidden" });
  assert.ok(await operation(page, "sendHeartbeat").isVisible());
  await page.locator(".contents.beside input").fill("");
  await operation(page, "listGuilds").waitFor();
});

visit("an optional header is sent if it is filled in", async (arrive) => {
  const visitor = await arriveOnSite(arrive);
  const page = await visitor.open(`${DOCS}#getStatus`);
  const status = operation(page, "getStatus");
  const sent = () => page.waitForRequest((request) => request.resourceType() === "fetch");
  // Nothing is required, so it is called at once.
  const [first] = await Promise.all([sent(), status.getByRole("button", { name: "Try it" }).click()]);
  assert.equal((await first.allHeaders())["sent-epoch"], undefined);
  await status.getByText(/^200 · \d+ ms$/).waitFor();
  await status.getByRole("textbox", { name: "Sent-Epoch" }).fill("1700000000");
  const [second] = await Promise.all([sent(), status.getByRole("button", { name: "Send" }).click()]);
  assert.equal((await second.allHeaders())["sent-epoch"], "1700000000");
});

visit("axe finds nothing in the routes, and they fit", async (arrive) => {
  const page = await (await arriveOnSite(arrive, { bypassCSP: true, reducedMotion: "reduce" })).open(DOCS);
  await operation(page, "getStatus").getByRole("button", { name: "Try it" }).click();
  const found = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 });
    await fitsWindow(page, `the reference at ${width}`);
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme });
      found.push(...(await axe(page)).map((line) => `${width} ${colorScheme}: ${line}`));
    }
  }
  assert.deepEqual(found, []);
});

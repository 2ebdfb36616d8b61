import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { HARBOUR, Service, makeFolder, servePages, startOnFreePort, startProgram } from "./harness.js";
import { drive } from "./scenarios.js";

const cwd = fileURLToPath(new URL("../../examples/sveltekit/", import.meta.url));
const SETTINGS = `/guilds/${HARBOUR.id}`;

let origin;

async function start() {
  return startOnFreePort(async (port) => {
    origin = `http://localhost:${port}`;
    const service = await Service.start(`${origin}/callback`);
    const settings = { ORIGIN: origin, PORT: String(port), HOST: "localhost", COMPANION_URL: service.url, LANTERN_DATA: await makeFolder() };
    await startProgram(process.execPath, ["build"], { cwd, env: { ...process.env, ...settings } }, (output) => output.includes("Listening"));
    return { service, origin };
  });
}

const greeting = (page) => page.getByRole("textbox", { name: "Greeting" });
const save = (page) => page.getByRole("button", { name: "Save" }).click();

drive("sveltekit", start, (visit, { signIn, problem }) => {
  visit("scripts can't read the session cookie", async (arrive) => {
    const visitor = await arrive();
    const page = await visitor.open();
    await signIn(page, "owner");
    await page.getByRole("button", { name: "Sign out everywhere" }).waitFor();
    const cookies = await visitor.context.cookies();
    const session = cookies.filter((cookie) => cookie.value.startsWith("bcs_"));
    assert.deepEqual(session.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Lax" }]);
    const seen = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }) + document.documentElement.outerHTML);
    assert.ok(!seen.includes("bcs_"));
  });

  visit("an administrator changes a setting, and it's still there after a reload", async (arrive) => {
    const visitor = await arrive();
    const page = await visitor.open();
    await signIn(page, "administrator");
    await page.getByRole("link", { name: `Settings of ${HARBOUR.name}` }).click();
    await greeting(page).fill("Ahoy <b>there</b>");
    await save(page);
    await page.getByText("Saved.").waitFor();
    await page.reload();
    assert.equal(await greeting(page).inputValue(), "Ahoy <b>there</b>");
  });

  visit("other users don't see the settings and can't save", async (arrive) => {
    const visitor = await arrive();
    visitor.allow(/^(GET|POST) .*\/guilds\/.*: (401|403|404)$/);
    const page = await visitor.open(SETTINGS);
    await page.getByRole("button", { name: "Sign in", exact: true }).waitFor();
    await signIn(page, "moderator");
    await page.getByRole("list", { name: "Your servers" }).getByText(HARBOUR.name).waitFor();
    assert.equal(await page.getByRole("link", { name: `Settings of ${HARBOUR.name}` }).count(), 0);
    await page.goto(origin + SETTINGS);
    await problem(page, "Only administrators").waitFor();
    const status = await page.evaluate(
      async (path) => (await fetch(path, { method: "POST", body: new URLSearchParams({ greeting: "mine" }) })).text(),
      SETTINGS,
    );
    assert.match(status, /not_allowed|Only administrators/);
    await page.goto(`${origin}/guilds/1`);
    await problem(page, "This server doesn't exist").waitFor();
  });

  visit("a form on another site can't save settings or sign anyone out", async (arrive, service) => {
    const { user } = await service.as("owner");
    const visitor = await arrive();
    const page = await visitor.open();
    await signIn(page, "owner");
    await page.getByRole("banner").getByText(user.name).waitFor();
    // Another port is another origin but the same site, so the browser sends the cookie.
    const form = (path) => `<form method="POST" action="${origin}${path}"><input name="greeting" value="stolen"><button>Win a prize</button></form>`;
    const forms = { "/save": form(SETTINGS), "/leave": form("/sign-out"), "/leave-everywhere": form("/sign-out?everywhere") };
    const elsewhere = await servePages((path) => forms[path] && `<!doctype html><link rel="icon" href="data:,">${forms[path]}`);
    visitor.allow(/^POST \/(guilds|sign-out).*: 403$/);
    for (const path of Object.keys(forms)) {
      await page.goto(elsewhere + path);
      const response = page.waitForResponse((each) => each.request().method() === "POST");
      await page.getByRole("button").click();
      assert.equal((await response).status(), 403);
    }
    await page.goto(origin + SETTINGS);
    await page.getByRole("banner").getByText(user.name).waitFor();
    assert.notEqual(await greeting(page).inputValue(), "stolen");
  });

  // From here on, the demo bot is gone.
  visit("a user who has lost the role since the page was loaded can't save", async (arrive, service) => {
    const { user } = await service.as("administrator");
    const [members, role] = [7, "900000000000000001"];
    await service.botTakesOver({ ...HARBOUR, members, grants: { [role]: ["ADMIN"] }, staff: { [user.id]: [role] } });
    const visitor = await arrive();
    // Without the stream, which would reload the page.
    await visitor.context.route("**/live", (route) => route.abort());
    visitor.allow(/\/live: net::ERR_FAILED$/);
    const page = await visitor.open();
    await signIn(page, "administrator");
    await page.getByRole("link", { name: `Settings of ${HARBOUR.name}` }).click();
    await greeting(page).fill("Too late");
    await service.botEvent({ type: "member", guild: HARBOUR.id, user: user.id, roles: [] });
    visitor.allow(/^(GET|POST) \/guilds\/.*: 403$/);
    await save(page);
    await problem(page, "Only administrators").waitFor();
    const owner = await (await arrive()).open();
    await signIn(owner, "owner");
    await owner.getByRole("link", { name: `Settings of ${HARBOUR.name}` }).click();
    assert.notEqual(await greeting(owner).inputValue(), "Too late");
  });
});

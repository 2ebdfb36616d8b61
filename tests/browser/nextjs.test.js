import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { Service, startOnFreePort, startProgram } from "./harness.js";
import { drive } from "./scenarios.js";

const cwd = fileURLToPath(new URL("../../examples/nextjs/", import.meta.url));

async function start() {
  return startOnFreePort(async (port) => {
    const origin = `http://localhost:${port}`;
    const service = await Service.start(`${origin}/callback`);
    const env = { ...process.env, ORIGIN: origin, COMPANION_URL: service.url, NEXT_TELEMETRY_DISABLED: "1" };
    const args = ["node_modules/next/dist/bin/next", "start", "--hostname", "localhost", "--port", String(port)];
    await startProgram(process.execPath, args, { cwd, env }, (output) => output.includes("Ready in"));
    return { service, origin };
  });
}

drive("nextjs", start, (visit, { signIn }) => {
  visit("scripts can't read the session cookie", async (arrive) => {
    const visitor = await arrive();
    const page = await visitor.open();
    await signIn(page, "owner");
    await page.getByRole("button", { name: "Sign out everywhere" }).waitFor();
    const session = (await visitor.context.cookies()).filter((cookie) => cookie.value.startsWith("bcs_"));
    assert.deepEqual(session.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Lax" }]);
    const seen = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }) + document.documentElement.outerHTML);
    assert.ok(!seen.includes("bcs_"));
  });

  visit("the Content Security Policy blocks injected scripts", async (arrive) => {
    const visitor = await arrive();
    const page = await visitor.open();
    visitor.allow(/Content Security Policy/);
    const ran = await page.evaluate(() => {
      const script = document.createElement("div");
      script.innerHTML = '<img src="data:," onerror="window.injected = true">';
      document.body.append(script);
      return new Promise((resolve) => script.firstChild.addEventListener("error", () => resolve(window.injected === true)));
    });
    assert.equal(ran, false);
    await page.evaluate(() => document.querySelector("div > img[src='data:,']").remove());
  });
});

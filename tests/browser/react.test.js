import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Service, freePort, startOnFreePort, startProgram } from "./harness.js";
import { drive } from "./scenarios.js";

const cwd = fileURLToPath(new URL("../../examples/react/", import.meta.url));
const vite = (port, env, ...args) =>
  startProgram(process.execPath, ["node_modules/vite/bin/vite.js", ...args, "--port", String(port), "--strictPort"], { cwd, env }, (output) =>
    output.includes(`localhost:${port}`),
  );

let development;

async function start() {
  return startOnFreePort(async (port) => {
    const origin = `http://localhost:${port}`;
    const developmentPort = await freePort();
    development = `http://localhost:${developmentPort}`;
    const service = await Service.start(`${origin}/callback`, `${development}/callback`);
    const env = { ...process.env, VITE_COMPANION_URL: service.url };
    execFileSync("npm", ["run", "--silent", "build"], { cwd, env });
    await vite(port, env, "preview");
    await vite(developmentPort, env);
    return { service, origin };
  });
}

drive("react", start, (visit, { signIn }) => {
  // Strict mode only runs effects twice in development.
  visit("strict mode's second effect neither creates a second session nor hides an error", async (arrive, service) => {
    const own = await service.as("owner");
    const before = (await own.get("/sessions")).length;
    const visitor = await arrive({ origin: development });
    const page = await visitor.open();
    await signIn(page, "owner");
    await page.getByRole("list", { name: "Your servers" }).getByRole("listitem").first().waitFor();
    assert.equal((await own.get("/sessions")).length, before + 1);
    await page.getByRole("button", { name: "Sign out", exact: true }).click();
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await page.getByRole("alert").filter({ hasText: "You cancelled the sign-in." }).waitFor();
  });
}, {
  // To somebody who is signed in, it's no failure.
  strangersCallback: (page) => page.getByRole("button", { name: "Sign out", exact: true }),
});

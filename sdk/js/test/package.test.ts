import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const folder = new URL("../../../", import.meta.url);

test("the package brings nothing with it", async () => {
  const manifest = JSON.parse(await readFile(new URL("package.json", folder), "utf8")) as Record<string, unknown>;
  assert.equal(manifest["dependencies"], undefined);
  assert.equal(manifest["peerDependencies"], undefined);
});

test("the lock file names no registry", async () => {
  const lock = await readFile(new URL("package-lock.json", folder), "utf8");
  assert.doesNotMatch(lock, /"resolved"/);
});

test("what is built is what is imported", async () => {
  // By the package's own name, so through its exports, as a bot does it.
  const { attach } = (await import("@bot-companion/discord.js")) as typeof import("../src/index.js");
  assert.equal(typeof attach, "function");
});

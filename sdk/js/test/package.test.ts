// The package as published: its contents, and that every kind of project can use it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const folder = fileURLToPath(new URL("../../../", import.meta.url));
const bin = (name: string): string => join(folder, "node_modules", ".bin", name);
let work = "";
let tarball = "";
let files: string[] = [];

before(async () => {
  work = mkdtempSync(join(tmpdir(), "package-"));
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", work], { cwd: folder });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  tarball = join(work, packed.filename);
  files = packed.files.map(({ path }) => path);
});

after(() => rmSync(work, { recursive: true, force: true }));

test("it brings nothing with it, and what it has is only what a bot needs", () => {
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, unknown>;
  assert.equal(manifest["dependencies"], undefined);
  // Supported are the versions that `VERSIONS=1 tests/system/sdk-js` tests; optional, so that npm brings no second one.
  assert.deepEqual(manifest["peerDependencies"], { "discord.js": "^14.11.0" });
  assert.deepEqual(manifest["peerDependenciesMeta"], { "discord.js": { optional: true } });
  for (const needed of ["LICENSE", "README.md", "package.json", "dist/esm/index.d.ts", "dist/cjs/index.d.ts"]) assert.ok(files.includes(needed), needed);
  const others = files.filter((file) => !/^(LICENSE|README\.md|package\.json|dist\/(esm|cjs)\/([a-z]+\.(js|d\.ts)|package\.json))$/.test(file));
  assert.deepEqual(others, []);
  assert.equal(readFileSync(join(folder, "LICENSE"), "utf8"), readFileSync(join(folder, "../../LICENSE"), "utf8"));
  assert.doesNotMatch(readFileSync(join(folder, "README.md"), "utf8"), /\]\((?!https:|#)/, "a registry cannot follow a relative link");
});

test("the lock file names no registry", () => {
  assert.doesNotMatch(readFileSync(join(folder, "package-lock.json"), "utf8"), /"resolved"/);
});

test("publint finds nothing", async () => {
  const { stdout } = await run(bin("publint"), ["run", tarball, "--strict"]);
  assert.match(stdout, /All good/);
});

test("the types are right for each way to import it", async () => {
  const { stdout } = await run(bin("attw"), [tarball, "--no-definitely-typed", "--format", "json"]);
  const { analysis } = JSON.parse(stdout) as { analysis: { problems: unknown[]; entrypoints: Record<string, { resolutions: Record<string, unknown> }> } };
  assert.deepEqual(analysis.problems, []);
  assert.deepEqual(Object.keys(analysis.entrypoints["."]?.resolutions ?? {}), ["node10", "node16-cjs", "node16-esm", "bundler"]);
});

test("installed: `import`, `require` and the command work", async () => {
  writeFileSync(join(work, "package.json"), '{ "name": "lantern", "private": true }');
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], { cwd: work });
  const required = createRequire(join(work, "x.js"))("@bot-companion/discord.js") as { attach: unknown };
  assert.equal(typeof required.attach, "function");
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", 'console.log(typeof (await import("@bot-companion/discord.js")).attach)'], { cwd: work });
  assert.equal(stdout, "function\n");
  const help = await run("npx", ["--no", "--offline", "@bot-companion/discord.js", "doctor", "--help"], { cwd: work });
  assert.match(help.stdout, /COMPANION_BOT_KEY/);
});

// The package as published: its size, its contents, and whether every kind of project can use it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const run = promisify(execFile);
const folder = fileURLToPath(new URL("../../../", import.meta.url));
const bin = (name: string): string => join(folder, "node_modules", ".bin", name);
const read = (name: string): string => readFileSync(join(folder, name), "utf8");
/** 5 KB. */
const LIMIT = 5 * 1024;
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

test("the core is at most 5 KB, compressed", async (t) => {
  const contents = 'export { createCompanion, CompanionError } from "./dist/esm/index.js"';
  const { outputFiles } = await build({ stdin: { contents, resolveDir: folder }, bundle: true, minify: true, format: "esm", target: "es2022", write: false });
  const size = gzipSync(outputFiles[0]?.contents as Uint8Array, { level: 9 }).length;
  t.diagnostic(`the core: ${size} bytes`);
  assert.ok(size <= LIMIT, `${size} bytes`);
  // The same in one file, for pages without a bundler.
  assert.ok(gzipSync(read("dist/companion.min.js"), { level: 9 }).length <= LIMIT);
  // For pages without the client.
  assert.ok(gzipSync(read("dist/companion-tabs.min.js"), { level: 9 }).length <= 500);
});

test("the types match the OpenAPI document", async () => {
  const { stdout } = await run(process.execPath, ["schema.mjs", "--print"], { cwd: folder, maxBuffer: 2 ** 24 });
  assert.equal(read("src/schema.ts"), stdout, "src/schema.ts is stale: npm run schema");
});

test("the service's own pages use the current build of the client", () => {
  for (const [file, built] of [["companion.js", "companion.min.js"], ["tabs.js", "companion-tabs.min.js"]] as const) {
    assert.ok(read(`../../crates/service/src/site/assets/${file}`) === read(`dist/${built}`), `crates/service/src/site/assets/${file} is stale: make site-client`);
  }
});

test("README.md lists every error code", () => {
  const codes = [...read("src/schema.ts").matchAll(/^ +error: (.*);$/gm)].flatMap(([, union]) => [...(union as string).matchAll(/"(\w+)"/g)].map(([, code]) => code as string));
  const local = [...read("src/errors.ts").matchAll(/LocalErrorCode = (.*);/g)].flatMap(([, union]) => [...(union as string).matchAll(/"(\w+)"/g)].map(([, code]) => code as string));
  assert.ok(codes.length > 10 && local.length > 5);
  for (const code of new Set([...codes, ...local])) assert.ok(read("README.md").includes(`\`${code}\``), code);
});

test("has no dependencies, and only contains what a dashboard needs", () => {
  const manifest = JSON.parse(read("package.json")) as Record<string, Record<string, unknown> | undefined>;
  assert.equal(manifest["dependencies"], undefined);
  assert.deepEqual(manifest["peerDependencies"], { react: ">=18" });
  assert.deepEqual(manifest["peerDependenciesMeta"], { react: { optional: true } });
  for (const name of ["index", "react", "server", "tabs"]) {
    for (const kind of ["esm", "cjs"]) assert.ok(files.includes(`dist/${kind}/${name}.d.ts`) && files.includes(`dist/${kind}/${name}.js`), name);
  }
  for (const needed of ["LICENSE", "README.md", "package.json", "dist/companion.min.js", "dist/companion-tabs.min.js"]) assert.ok(files.includes(needed), needed);
  const others = files.filter((file) => !/^(LICENSE|README\.md|((react|server|tabs)\/)?package\.json|dist\/companion(-tabs)?\.min\.js|dist\/(esm|cjs)\/([a-z]+\.(js|d\.ts)|package\.json))$/.test(file));
  assert.deepEqual(others, []);
  assert.equal(read("LICENSE"), read("../../LICENSE"));
  assert.doesNotMatch(read("README.md"), /\]\((?!https:|#)/, "relative links don't work on a package registry's page");
  // Without this line, Next.js would treat the hooks as server code.
  assert.match(read("dist/esm/react.js"), /^"use client";/);
  assert.doesNotMatch(read("dist/esm/index.js") + read("dist/esm/server.js"), /from "react"/);
});

test("the lock file doesn't name a registry", () => {
  assert.doesNotMatch(read("package-lock.json"), /"resolved"/);
});

test("publint finds no problems", async () => {
  const { stdout } = await run(bin("publint"), ["run", tarball, "--strict"]);
  assert.match(stdout, /All good/);
});

test("the types work with every module resolution", async () => {
  const { stdout } = await run(bin("attw"), [tarball, "--no-definitely-typed", "--format", "json"], { maxBuffer: 2 ** 24 });
  const { analysis } = JSON.parse(stdout) as { analysis: { problems: unknown[]; entrypoints: Record<string, { resolutions: Record<string, unknown> }> } };
  assert.deepEqual(analysis.problems, []);
  for (const name of [".", "./react", "./server", "./tabs"]) {
    assert.deepEqual(Object.keys(analysis.entrypoints[name]?.resolutions ?? {}), ["node10", "node16-cjs", "node16-esm", "bundler"], name);
  }
});

test("once installed, `import` and `require` work, the core works without React, and TypeScript projects compile", async () => {
  writeFileSync(join(work, "package.json"), '{ "name": "lantern", "private": true }');
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--omit=peer", tarball], { cwd: work });
  const required = createRequire(join(work, "x.js"));
  assert.equal(typeof (required("@bot-companion/web") as { createCompanion: unknown }).createCompanion, "function");
  assert.equal(typeof (required("@bot-companion/web/server") as { createServerCompanion: unknown }).createServerCompanion, "function");
  const script = 'console.log(typeof (await import("@bot-companion/web")).createCompanion, typeof (await import("@bot-companion/web/server")).createServerCompanion)';
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: work });
  assert.equal(stdout, "function function\n");

  // With the tests' copy of React.
  mkdirSync(join(work, "node_modules", "@types"), { recursive: true });
  for (const name of ["react", "@types/react", "csstype"]) symlinkSync(join(folder, "node_modules", name), join(work, "node_modules", name));
  assert.equal(typeof (required("@bot-companion/web/react") as { useGuild: unknown }).useGuild, "function");
  writeFileSync(
    join(work, "page.ts"),
    `import { type CompanionError, createCompanion } from "@bot-companion/web";
     import { useGuilds } from "@bot-companion/web/react";
     import { createServerCompanion } from "@bot-companion/web/server";
     const companion = createCompanion({ url: "https://companion.example" });
     export const name: Promise<string> = companion.guilds().then((guilds) => guilds[0]!.name);
     // @ts-expect-error a plain member has no role
     export const role: Promise<string> = companion.guilds().then((guilds) => guilds[0]!.role);
     export const is = (error: CompanionError) => error.code === "guild_not_found" || error.code === "state_mismatch";
     // @ts-expect-error no such code
     export const not = (error: CompanionError) => error.code === "no_such_code";
     export const Hook = () => useGuilds().data?.map((guild) => guild.permissions.ADMIN);
     export const server = createServerCompanion({ url: "https://companion.example", redirectUri: "https://dash.example/callback" });
    `,
  );
  // attw has already checked the other module resolutions.
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "ES2022", "--module", "NodeNext"];
  await run(bin("tsc"), [...options, "page.ts"], { cwd: work }).catch((error: { stdout: string }) => assert.fail(error.stdout));

  // The React code in README.md, as printed.
  for (const name of ["react-dom", "@types/react-dom"]) symlinkSync(join(folder, "node_modules", name), join(work, "node_modules", name));
  const [, code] = /^```[jt]sx\n([^]*?)^```$/m.exec(read("README.md")) as unknown as [string, string];
  writeFileSync(join(work, "readme.tsx"), code);
  await run(bin("tsc"), [...options, "--jsx", "react-jsx", "readme.tsx"], { cwd: work }).catch((error: { stdout: string }) => assert.fail(error.stdout));
});

// Builds the package as ES modules and CommonJS, each with its types, and the core and the tab sharing as one small file each, for pages
// without a bundler. Also copies the licence.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = new URL("./", import.meta.url);
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(new URL("dist", folder), { recursive: true, force: true });
for (const [config, name, type] of [["tsconfig.json", "esm", "module"], ["tsconfig.cjs.json", "cjs", "commonjs"]]) {
  execFileSync(process.execPath, [tsc, "-p", config], { cwd: folder, stdio: "inherit" });
  // Node and TypeScript get the module format from the nearest package.json.
  writeFileSync(new URL(`dist/${name}/package.json`, folder), JSON.stringify({ type }) + "\n");
}
const licence = new URL("../../LICENSE", folder);
if (existsSync(licence)) copyFileSync(licence, new URL("LICENSE", folder));

// The old module resolution of TypeScript and Node ignores `exports`, and looks for a folder with a package.json.
for (const name of ["react", "server", "tabs"]) {
  mkdirSync(new URL(name, folder), { recursive: true });
  writeFileSync(new URL(`${name}/package.json`, folder), JSON.stringify({ main: `../dist/cjs/${name}.js`, types: `../dist/cjs/${name}.d.ts` }) + "\n");
}

for (const [entry, file] of [["index", "companion"], ["tabs", "companion-tabs"]]) {
  await build({
    entryPoints: [fileURLToPath(new URL(`dist/esm/${entry}.js`, folder))],
    outfile: fileURLToPath(new URL(`dist/${file}.min.js`, folder)),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
  });
}

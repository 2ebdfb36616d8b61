// Builds the package twice, as ES modules and for `require`, each with its types; and takes the licence along.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const folder = new URL("./", import.meta.url);
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(new URL("dist", folder), { recursive: true, force: true });
for (const [config, name, type] of [["tsconfig.json", "esm", "module"], ["tsconfig.cjs.json", "cjs", "commonjs"]]) {
  execFileSync(process.execPath, [tsc, "-p", config], { cwd: folder, stdio: "inherit" });
  // Node and TypeScript take the kind of a file from the nearest package.json.
  writeFileSync(new URL(`dist/${name}/package.json`, folder), JSON.stringify({ type }) + "\n");
}
const licence = new URL("../../LICENSE", folder);
if (existsSync(licence)) copyFileSync(licence, new URL("LICENSE", folder));

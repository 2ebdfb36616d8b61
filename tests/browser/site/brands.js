// The brands of examples/brands, as variables for `dev`.
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = new URL("../../../examples/brands/", import.meta.url);
const entries = readdirSync(FOLDER, { withFileTypes: true });
export const BRANDS = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);

/** The settings of a brand. Its strings and arrays are valid JSON. */
export function settingsOf(brand) {
  const lines = readFileSync(new URL(`${brand}/site.toml`, FOLDER), "utf8").matchAll(/^(\w+) = (.+)$/gm);
  return Object.fromEntries([...lines].map(([, name, value]) => [name, JSON.parse(value)]));
}

export function variablesOf(brand) {
  const variable = ([name, value]) => {
    // Paths are relative to the repository.
    const isFile = ["icon", "style", "features"].includes(name);
    const text = isFile ? fileURLToPath(new URL(value.replace("examples/brands/", ""), FOLDER)) : [value].flat().join(",");
    return [`COMPANION_SITE_${name.toUpperCase()}`, text];
  };
  return Object.fromEntries(Object.entries(settingsOf(brand)).map(variable));
}

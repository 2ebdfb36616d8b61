// Replays `sdk/conformance/scenarios`: each is a test of its name.
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { type Json, Replay } from "./replay.js";

const folder = new URL("../../../../conformance/scenarios/", import.meta.url);

for (const file of readdirSync(folder).filter((name) => name.endsWith(".ndjson")).sort()) {
  const [header = {}, ...steps] = readFileSync(new URL(file, folder), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Json);
  test(file.replace(/\.ndjson$/, ""), async () => {
    const replay = new Replay(header);
    for (const [index, step] of steps.entries()) {
      try {
        await replay.step(step);
      } catch (error) {
        throw new Error(`line ${index + 2}, ${JSON.stringify(step)}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    replay.end();
  });
}

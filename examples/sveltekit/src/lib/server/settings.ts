import { env } from "$env/dynamic/private";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

export interface Settings {
  greeting: string;
}

export const GREETING_LENGTH = 200;

const folder = env.LANTERN_DATA ?? "data";
/** `id` must come from the service: an ID from the visitor could name another file. */
const file = (id: string) => join(folder, `${id}.json`);

export async function readSettings(id: string): Promise<Settings> {
  try {
    return JSON.parse(await readFile(file(id), "utf8")) as Settings;
  } catch {
    return { greeting: "Welcome!" };
  }
}

export async function saveSettings(id: string, settings: Settings): Promise<void> {
  await mkdir(folder, { recursive: true });
  // Written to a temporary file first, so that readers never see a half-written one.
  await writeFile(`${file(id)}.new`, JSON.stringify(settings));
  await rename(`${file(id)}.new`, file(id));
}

import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Service, makeFolder, startProgram } from "./harness.js";
import { drive } from "./scenarios.js";

const example = new URL("../../examples/plain/", import.meta.url);
const client = new URL("../../sdk/web/dist/", import.meta.url);

drive("plain", async () => {
  const folder = await makeFolder();
  await cp(example, folder, { recursive: true });
  for (const file of ["companion.min.js", "companion-tabs.min.js"]) await cp(new URL(file, client), join(folder, file));
  const environment = { ...process.env, PORT: "0" };
  const server = await startProgram(process.execPath, [join(folder, "serve.mjs")], { env: environment }, (output) => output.includes("\n"));
  const { origin } = new URL(server.output().trim());
  const service = await Service.start(`${origin}/callback`);
  const page = await readFile(join(folder, "index.html"), "utf8");
  await writeFile(join(folder, "index.html"), page.replace("http://127.0.0.1:8080", service.url));
  return { service, origin };
});

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drive } from "./scenarios.js";
import { Service, startProgram } from "./harness.js";

const example = new URL("../plain/", import.meta.url);
const client = new URL("../../sdk/web/dist/companion.min.js", import.meta.url);

drive("plain", async () => {
  const folder = await mkdtemp(join(tmpdir(), "plain-"));
  await cp(example, folder, { recursive: true });
  await cp(client, join(folder, "companion.min.js"));
  const environment = { ...process.env, PORT: "0" };
  const server = await startProgram(process.execPath, [join(folder, "serve.mjs")], { env: environment }, (output) => output.includes("\n"));
  const origin = new URL(server.output().trim()).origin;
  const service = await Service.start(`${origin}/callback`);
  const page = await readFile(join(folder, "index.html"), "utf8");
  await writeFile(join(folder, "index.html"), page.replace("http://127.0.0.1:8080", service.url));
  const stop = async () => {
    await Promise.all([server.stop(), service.stop()]);
    await rm(folder, { recursive: true });
  };
  return { service, origin, stop };
});

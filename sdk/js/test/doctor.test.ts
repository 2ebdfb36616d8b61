// The command `doctor`, as it is installed: with the real service and the fake Discord.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test, type TestContext } from "node:test";
import { FakeDiscord, PYTHON } from "./processes.js";
import { RealService, needsService } from "./real.js";

const DOCTOR = fileURLToPath(new URL("../../../dist/esm/doctor.js", import.meta.url));

async function doctor(env: Record<string, string>, ...args: string[]): Promise<{ code: number | null; output: string }> {
  const { PATH = "", TMPDIR = "" } = process.env;
  const child = spawn(process.execPath, [DOCTOR, ...args], { stdio: ["ignore", "pipe", "pipe"], env: { PATH, TMPDIR, ...env } });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (piece: string) => (output += piece));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  for (const secret of [env["COMPANION_BOT_KEY"], env["DISCORD_TOKEN"]]) if (secret) assert.equal(output.includes(secret.trim()), false, "a secret was printed");
  return { code, output };
}

async function serve(context: TestContext, status: number, body: string, headers = {}): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status, headers).end(body));
  context.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "doctor-"));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test("everything is right: with the real service and a Discord", { skip: needsService }, async (context) => {
  const place = folder(context);
  const service = new RealService(place);
  await service.start();
  context.after(() => service.kill());
  const fake = await FakeDiscord.start({ guilds: [] });
  context.after(() => fake.stop());
  const env = {
    COMPANION_URL: service.url, COMPANION_BOT_KEY: service.key, COMPANION_SPOOL: join(place, "feedback"), DISCORD_TOKEN: fake.token, DISCORD_API: fake.api,
  };
  const right = await doctor(env, "doctor", "--grant-keys", "ADMIN,MOD");
  assert.equal(right.code, 0, right.output);
  assert.deepEqual(right.output.trim().split("\n").map((line) => line.slice(0, 17).trimEnd()), [
    "ok     address", "ok     key", "ok     clock", "ok     intents", "ok     grant keys", "ok     spool", "all is well",
  ]);
  assert.deepEqual(readdirSync(place), ["data"], "it leaves nothing behind");

  const revoked = await doctor({ ...env, COMPANION_BOT_KEY: "bck_0000000000000000000000000000000000000000000" }, "doctor");
  assert.equal(revoked.code, 1);
  assert.match(revoked.output, /^ok {5}address/m);
  assert.match(revoked.output, /\nsomething is wrong: see the lines that begin with "wrong"\n$/);
  assert.match(revoked.output, /^wrong {2}key .*refuses COMPANION_BOT_KEY.*key create/m);
});

test("an intent that is not switched on, a token that is wrong", { skip: PYTHON ? false : "FAKE_DISCORD_PYTHON is not set" }, async (context) => {
  const fake = await FakeDiscord.start({ guilds: [], privileged: ["presences"] });
  context.after(() => fake.stop());
  const off = await doctor({ DISCORD_TOKEN: fake.token, DISCORD_API: fake.api }, "doctor");
  assert.match(off.output, /^wrong {2}intents .*Server Members Intent/m);
  const wrong = await doctor({ DISCORD_TOKEN: "not.the.token", DISCORD_API: fake.api }, "doctor");
  assert.match(wrong.output, /^wrong {2}intents .*refuses DISCORD_TOKEN/m);
});

test("another server, another clock, nobody there", async (context) => {
  const key = { COMPANION_BOT_KEY: "bck_k" };
  const html = await doctor({ ...key, COMPANION_URL: await serve(context, 200, "<html>") }, "doctor");
  assert.match(html.output, /^wrong {2}address .*is another server: check COMPANION_URL/m);
  assert.equal(html.code, 1);
  const redirect = await doctor({ ...key, COMPANION_URL: await serve(context, 301, "", { location: "https://example.org" }) }, "doctor");
  assert.match(redirect.output, /^wrong {2}address .*redirects/m);
  const envelope = JSON.stringify({ code: 200, message: "", data: {} });
  const late = await doctor({ ...key, COMPANION_URL: await serve(context, 200, envelope, { date: new Date(Date.now() - 3_600_000).toUTCString() }) }, "doctor");
  assert.match(late.output, /^wrong {2}clock .*36\d\d s ahead of the service's/m);
  const gone = await doctor({ ...key, COMPANION_URL: "http://127.0.0.1:1" }, "doctor");
  assert.match(gone.output, /^wrong {2}address .*does not answer/m);
});

test("configuration, keys and spool that are wrong; the help", async (context) => {
  const nothing = await doctor({}, "doctor");
  assert.equal(nothing.code, 1);
  assert.match(nothing.output, /^wrong {2}configuration .*COMPANION_URL is not set/m);
  assert.match(nothing.output, /^- {6}intents .*set DISCORD_TOKEN/m);
  const broken = await doctor({ COMPANION_URL: "https://example.org", COMPANION_BOT_KEY: "bck_secret\n" }, "doctor", "--grant-keys", "ADMN,MOD", "--spool", join(folder(context), "no", "spool"));
  assert.match(broken.output, /^wrong {2}configuration .*COMPANION_BOT_KEY has a line break/m);
  assert.match(broken.output, /^wrong {2}grant keys .*"ADMN" \(did you mean ADMIN\?\)/m);
  assert.match(broken.output, /^wrong {2}spool /m);
  const help = await doctor({}, "--help");
  assert.equal(help.code, 0);
  assert.match(help.output, /npx --no @bot-companion\/discord\.js doctor/);
  assert.equal((await doctor({}, "operate")).code, 2);
  assert.equal((await doctor({}, "doctor", "--what")).code, 2);
});

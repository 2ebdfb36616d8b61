// Feedback on disk: a killed process loses none, two processes do not share a file.
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "../src/clock.js";
import { Spool } from "../src/spool.js";
import { Status } from "../src/status.js";
import { KEY } from "./bots.js";
import { startBot } from "./kill.js";
import { listen } from "./processes.js";
import { Log, Service, until } from "./support.js";

function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "spool-"));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function open(path: string, log = new Log()): Spool | null {
  return Spool.open(path, systemClock, new Status(log));
}

function line(id: string): string {
  return JSON.stringify({ type: "feedback", id });
}

test("a process that is killed: the next one sends what was queued, and the file is empty", async (context) => {
  const spool = join(folder(context), "feedback");
  const service = new Service();
  const server = await listen(service, KEY);
  context.after(() => server.stop());
  const first = startBot(server.url, ["f1", "f2"], { spool, logger: null });
  await until("it is queued", () => first.said().includes("queued"));
  assert.equal(statSync(spool).mode & 0o777, 0o600);
  first.process.kill("SIGKILL");
  await first.exit;
  assert.equal(service.feedback.size, 0);
  assert.equal(readFileSync(spool, "utf8").split("\n").length, 3);

  const second = startBot(server.url, ["f3"], { spool, logger: null, limits: { gatherTime: 10 } });
  await until("all is sent", () => service.feedback.size === 3);
  assert.deepEqual([...service.feedback.keys()], ["f1", "f2", "f3"], "what was there comes first");
  await until("the file is empty", () => statSync(spool).size === 0);
  second.process.kill("SIGTERM");
  await second.exit;
  assert.deepEqual(readdirSync(join(spool, "..")), ["feedback"], "the lock is given back");
});

test("a spool in use is not used by another process, and that is said", async (context) => {
  const path = join(folder(context), "feedback");
  const bot = startBot("http://127.0.0.1:9", ["f1"], { spool: path, logger: null });
  await until("it is queued", () => bot.said().includes("queued"));
  const log = new Log();
  assert.equal(open(path, log), null);
  assert.equal(log.count("is in use by another process"), 1);
  bot.process.kill("SIGKILL");
  await bot.exit;
  const spool = open(path, log);
  assert.deepEqual(spool?.entries().map(({ about }) => about), ["feedback f1"]);
  assert.equal(open(path, log), null, "nor twice in the same process");
  spool?.close();
});

test("a lock of another machine counts while it is fresh", (context) => {
  const path = join(folder(context), "feedback");
  writeFileSync(`${path}.lock`, JSON.stringify({ pid: 1, host: `not-${hostname()}`, started: null }));
  assert.equal(open(path), null);
  const later = { ...systemClock, now: () => Date.now() + 120_000 };
  const spool = Spool.open(path, later, new Status(null));
  assert.ok(spool, "left over");
  spool.close();
});

test("what was sent is forgotten, what was cut is skipped, and the file does not grow", (context) => {
  const path = join(folder(context), "feedback");
  let spool = open(path) as Spool;
  const numbers = ["a", "b", "c"].map((id) => spool.add(line(id)) as number);
  spool.remove(numbers[1] as number);
  spool.close();
  appendFileSync(path, '{"n":9,"line":{"type":"feed');
  spool = open(path) as Spool;
  assert.deepEqual(spool.entries().map(({ text }) => text), [line("a"), line("c")]);
  const bound = 64 * 3_000;
  for (let n = 0; n < 10_000; n += 1) {
    spool.remove(spool.add(line(`entry ${n}`)) as number);
    assert.ok(statSync(path).size < bound);
  }
  spool.close();
  spool = open(path) as Spool;
  assert.deepEqual(spool.entries().map(({ text }) => text), [line("a"), line("c")]);
  spool.close();
});

test("a file that cannot be used is said, and feedback waits in memory", (context) => {
  const log = new Log();
  assert.equal(open(join(folder(context), "missing", "feedback"), log), null);
  assert.equal(log.count("the spool cannot be used, feedback is kept in memory only"), 1);
});

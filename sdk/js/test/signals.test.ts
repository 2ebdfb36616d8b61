// What happens to queued feedback when the process is asked to stop: real processes, real signals.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Options } from "../src/index.js";
import { KEY } from "./bots.js";
import { PATIENT, startBot } from "./kill.js";
import { listen } from "./processes.js";
import { Service, until } from "./support.js";

/** Starts a bot with two queued entries, sends a signal, and returns the result. */
async function killed(signal: NodeJS.Signals, options: Options = {}, more: object = {}) {
  const service = new Service();
  const server = await listen(service, KEY);
  const bot = startBot(server.url, ["f1", "f2"], { ...options, logger: null }, more);
  try {
    await until("it is queued", () => bot.said().includes("queued"));
    bot.process.kill(signal);
    const exit = await bot.exit;
    return { ...exit, delivered: [...service.feedback.keys()], said: bot.said() };
  } finally {
    bot.process.kill("SIGKILL");
    await server.stop();
  }
}

test("SIGTERM: what waits is sent, then the process ends as SIGTERM ends it", async () => {
  const { code, signal, delivered, said } = await killed("SIGTERM");
  assert.deepEqual(delivered, ["f1", "f2"]);
  assert.deepEqual([code, signal], [null, "SIGTERM"]);
  assert.match(said, /f2 true/);
});

test("SIGTERM with sigterm: false is none of its business", async () => {
  const { signal, said } = await killed("SIGTERM", { sigterm: false });
  assert.equal(signal, "SIGTERM");
  assert.doesNotMatch(said, /true/);
});

test("SIGTERM that the bot handles itself stays the bot's", async () => {
  const { code, signal, said } = await killed("SIGTERM", {}, { hasOwnListener: true });
  assert.deepEqual([code, signal], [7, null]);
  assert.doesNotMatch(said, /true/);
});

test("SIGTERM with a service that does not answer: the process ends all the same", async () => {
  const service = new Service();
  const server = await listen(service, KEY);
  service.before = () => ({ status: 503, data: {} });
  const bot = startBot(server.url, ["f1"], { logger: null, limits: { ...PATIENT, closeTimeout: 50 } });
  try {
    await until("it is queued", () => bot.said().includes("queued"));
    bot.process.kill("SIGTERM");
    assert.equal((await bot.exit).signal, "SIGTERM");
    assert.match(bot.said(), /f1 false/);
  } finally {
    bot.process.kill("SIGKILL");
    await server.stop();
  }
});

// Shared by the tests: the service with its sandbox, an example next to it, and visitors in Chromium that record everything
// that goes wrong in their pages.
//
//   BOT_COMPANION  the service's binary
//   CHROMIUM       the browser (/usr/bin/chromium, as Debian has it)
//   DEADLINE       how long a failing test waits, in milliseconds
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify, stripVTControlCharacters } from "node:util";
import { chromium } from "playwright-core";

const DEADLINE = Number(process.env.DEADLINE ?? 180_000);
// Playwright's own waits end a failing test. This is for anything else that hangs.
const timeout = 600_000;

/** The sandbox's predefined users. */
export const PEOPLE = ["owner", "manager", "administrator", "moderator", "member", "newcomer", "collector"];
/** The guild that all of them but the newcomer and the collector are in. */
export const HARBOUR = { id: "871203344918732833", owner: "280114907635220483", name: "Harbour City Roleplay" };

/** Waits until `condition` returns something, for what Playwright can't wait for. */
export async function until(what, condition) {
  const end = Date.now() + DEADLINE;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A port that was free a moment ago. Another program may take it; see `startOnFreePort`. */
export async function freePort() {
  const server = createTcpServer().listen(0, "localhost");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Starts a program that can't choose a port itself. `start(port)` throws an error with "in use" in its message if the port is taken. */
export async function startOnFreePort(start) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (attempt === 5 || !/in use/i.test(error.message)) throw error;
    }
  }
}

const cleanups = [];
/** Runs this when the test file ends, even after a failure. */
export const afterwards = (cleanup) => cleanups.push(cleanup);
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

/**
 * Starts a program that runs until the test file ends, or until `stop()`. `ready(output)` decides from everything it has printed whether
 * it has started. Colours are stripped, because many programs print them even into a pipe when CI is set.
 */
export async function startProgram(command, args, options, ready) {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  const output = () => stripVTControlCharacters(printed);
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (printed += text));
  let ended = false;
  child.on("error", (error) => {
    printed += error.message;
    ended = true;
  });
  child.on("exit", () => (ended = true));
  afterwards(() => stop());
  const stop = async () => {
    if (ended) return;
    child.kill("SIGTERM");
    await until(`${command} ends`, () => ended);
  };
  try {
    await until(`${command} starts`, () => {
      if (ended) throw new Error(`${command} has exited:\n${output()}`);
      return ready(output());
    });
  } catch (error) {
    await stop();
    // The program's output says why it failed.
    if (!error.message.includes(output())) error.message += `\n${output()}`;
    throw error;
  }
  return { stop, output };
}

/** A folder that is deleted when the test file ends. */
export async function makeFolder() {
  const folder = await mkdtemp(join(tmpdir(), "bot-companion-web-"));
  afterwards(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** `bot-companion dev` with our own redirect URLs. */
export class Service {
  static start(...redirectUris) {
    return Service.startWith({}, ...redirectUris);
  }

  /** The same with these variables. */
  static async startWith(variables, ...redirectUris) {
    const service = new Service(await makeFolder(), variables, redirectUris);
    await service.start("127.0.0.1:0");
    return service;
  }

  constructor(folder, variables, redirectUris) {
    Object.assign(this, { folder, variables, redirectUris, sequence: 1 });
  }

  async start(listen) {
    const args = ["dev", "--json", "--listen", listen, "--data", this.folder, "--no-limits"];
    for (const uri of this.redirectUris) args.push("--redirect-uri", uri);
    // The line is printed once the demo bot has sent its guilds, between log lines.
    const line = /^\{"admin".*\}$/m;
    const env = { ...process.env, ...this.variables };
    this.program = await startProgram(process.env.BOT_COMPANION, args, { env }, (output) => line.test(output));
    const addresses = JSON.parse(this.program.output().match(line)[0]);
    this.url = addresses.service;
    this.sandbox = addresses.sandbox;
    this.key = addresses.bot_key;
  }

  stop() {
    return this.program.stop();
  }

  /** With the same address and data. */
  startAgain() {
    return this.start(new URL(this.url).host);
  }

  async call(method, path, headers = {}, body = undefined) {
    const response = await fetch(this.url + path, { method, headers, body });
    const { data, message } = await response.json();
    assert.ok(response.ok, `${method} ${path}: ${message} ${data?.reason ?? ""}`);
    return data;
  }

  /** Signs this user in outside of any page, and calls the API for them. */
  async as(person) {
    const { token, user } = await this.call("POST", "/auth", { "Idp-Code": person });
    const call = (method, path) => this.call(method, path, { Token: token });
    return { user, get: (path) => call("GET", path), delete: (path) => call("DELETE", path) };
  }

  /** A sandbox switch: PUT turns a failure on, DELETE turns it off, POST triggers it once. */
  async control(method, path) {
    const response = await fetch(`${this.sandbox}/control${path && `/${path}`}`, { method });
    assert.ok(response.ok, `${method} /control/${path}: ${response.status}`);
  }

  async bot(method, path, lines) {
    const headers = { Authorization: `Bearer ${this.key}`, "Feed-Instance": "browser-tests", "Feed-Sequence": String(this.sequence) };
    await this.call(method, path, headers, lines.map((line) => JSON.stringify(line)).join("\n"));
  }

  /** A real bot reports these guilds, which stops the demo bot. */
  async botTakesOver(...guilds) {
    const shards = [{ id: 0, sent_ms_ago: 10, acknowledged_ms_ago: 5, latency: 5 }];
    const heartbeat = { instance: "browser-tests", started_at: Date.now() / 1000, memory: 50_000_000, shard_count: 1, shards };
    await this.bot("PUT", "/bot/heartbeat", [heartbeat]);
    await this.bot("PUT", "/bot/shards/1/0/guilds", [...guilds, { end: guilds.length }]);
  }

  /** Runs an operator's command on the service's data. */
  async command(...args) {
    const env = { ...process.env, COMPANION_STORE_URL: `sqlite:${join(this.folder, "bot-companion.db")}` };
    const { stdout } = await promisify(execFile)(process.env.BOT_COMPANION, args, { env });
    return stdout;
  }

  /** The bot sends a change. */
  async botEvent(event) {
    await this.bot("POST", "/bot/events", [event]);
    this.sequence += 1;
  }
}

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml" };

/** Serves pages on a free port of localhost: `pages(path)` returns a file's text, or nothing. */
export async function servePages(pages) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const text = await pages(pathname);
    response.writeHead(text === undefined ? 404 : 200, { "Content-Type": TYPES[extname(pathname)] ?? TYPES[".html"] });
    response.end(text);
  }).listen(0, "localhost");
  await once(server, "listening");
  afterwards(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://localhost:${server.address().port}`;
}

export async function launchBrowser() {
  // Chromium's own sandbox doesn't work for root or in most containers.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args, timeout: DEADLINE });
  afterwards(() => browser.close());
  return browser;
}

/** A visitor with their own browser context: storage and cookies are separate. */
export class Visitor {
  /** `options` are Playwright's context options, such as `locale`. */
  static async arrive(browser, origin, options = {}) {
    const context = await browser.newContext(options);
    context.setDefaultTimeout(DEADLINE);
    return new Visitor(context, origin);
  }

  constructor(context, origin) {
    this.context = context;
    this.origin = origin;
    this.problems = [];
    this.allowed = [];
    context.on("page", (page) => this.#watch(page));
  }

  #watch(page) {
    page.on("pageerror", (error) => this.problems.push(`uncaught: ${error.stack ?? error}`));
    page.on("console", (message) => {
      // Error responses are recorded below, with method and status.
      const isResponse = message.text().startsWith("Failed to load resource");
      if (["error", "warning"].includes(message.type()) && !isResponse) this.problems.push(`console: ${message.text()}`);
    });
    page.on("requestfailed", (request) => {
      // Chromium aborts pending requests, such as the live stream, when a page is left.
      const { errorText } = request.failure();
      if (errorText !== "net::ERR_ABORTED") this.problems.push(`${request.method()} ${request.url()}: ${errorText}`);
    });
    page.on("response", (response) => {
      if (response.status() < 400) return;
      this.problems.push(`${response.request().method()} ${new URL(response.url()).pathname}: ${response.status()}`);
    });
  }

  /** A new tab with this page of the example. */
  async open(path = "/") {
    const page = await this.context.newPage();
    await page.goto(this.origin + path);
    return page;
  }

  /** Marks such problems as expected, including earlier ones. */
  allow(pattern) {
    this.allowed.push(pattern);
  }

  /** Fails on any problem that wasn't expected. */
  async check() {
    for (const page of this.context.pages()) this.problems.push(...(await brokenImages(page)));
    const isAllowed = (problem) => this.allowed.some((pattern) => pattern.test(problem));
    assert.deepEqual(this.problems.filter((problem) => !isAllowed(problem)), []);
  }

  async leave() {
    // The page may be in the middle of a request that the test routes. Its handler would fail after the test, and with it the whole file.
    await this.context.unrouteAll({ behavior: "ignoreErrors" });
    await this.context.close();
  }
}

/**
 * A browser and the result of `start()` (usually a service and its pages' origin) for a file's tests. `visit` defines a test
 * with any number of visitors, who may only see the problems they expect.
 */
export function stage(name, start) {
  const stage = {};
  before(async () => {
    stage.browser = await launchBrowser();
    Object.assign(stage, await start());
  }, { timeout });

  stage.visit = (title, scenario) =>
    test(`${name}: ${title}`, { timeout }, async () => {
      const visitors = [];
      const arrive = async ({ origin = stage.origin, ...options } = {}) => {
        const visitor = await Visitor.arrive(stage.browser, origin, options);
        // A page that reloads just when its session ends gets this error.
        visitor.allow(/^GET .*: 401$/);
        visitors.push(visitor);
        return visitor;
      };
      try {
        await scenario(arrive, stage.service);
        for (const visitor of visitors) await visitor.check();
      } finally {
        for (const visitor of visitors) await visitor.leave();
        await stage.service.control("DELETE", "");
      }
    });
  return stage;
}

/** Images that failed to load. Images that are not loaded yet because they are out of view don't count. */
async function brokenImages(page) {
  return page.evaluate(() =>
    [...document.images].filter((image) => image.complete && image.naturalWidth === 0 && image.src).map((image) => `broken image: ${image.src}`),
  );
}

// HTTP with real sockets: compression, slow bodies, other servers.
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { createGunzip, gunzipSync } from "node:zlib";
import { systemClock } from "../src/clock.js";
import { type FeedRequest, fetchTransport } from "../src/transport.js";

async function serve(context: TestContext, answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  context.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function send(url: string, lines: FeedRequest["lines"], flushInterval = 60_000) {
  const transport = fetchTransport(`${url}/base/`, "bck_k", systemClock, flushInterval);
  return transport({ method: "PUT", path: "/bot/x", headers: { "feed-sequence": "2" }, lines, signal: new AbortController().signal });
}

function envelope(response: ServerResponse, data: object | null, status = 200): void {
  response.writeHead(status, { "content-type": "application/json", "retry-after": "7" });
  response.end(JSON.stringify({ code: status, message: "", data }));
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

test("small bodies are plain, large and streamed ones gzip; the answer is the envelope's data", async (context) => {
  const seen: [path: string | undefined, key: string | undefined, encoding: string | undefined, lines: number][] = [];
  const url = await serve(context, async (request, response) => {
    const body = await bodyOf(request);
    const encoding = request.headers["content-encoding"];
    const text = (encoding === "gzip" ? gunzipSync(body) : body).toString();
    seen.push([request.url, request.headers.authorization, encoding, text.split("\n").length - 1]);
    envelope(response, { next: 3 }, 409);
  });
  const line = JSON.stringify({ text: "x".repeat(100) });
  async function* stream(): AsyncGenerator<string[]> {
    for (let n = 0; n < 1_000; n += 1) yield [line, line];
  }
  assert.deepEqual(await send(url, [line]), { status: 409, retryAfter: "7", data: { next: 3 } });
  await send(url, Array.from({ length: 100 }, () => line));
  await send(url, stream());
  await send(url, []);
  const key = "Bearer bck_k";
  assert.deepEqual(seen, [
    ["/base/bot/x", key, undefined, 1], ["/base/bot/x", key, "gzip", 100], ["/base/bot/x", key, "gzip", 2_000], ["/base/bot/x", key, undefined, 0],
  ]);
});

test("lines that come slowly go out before the body is complete", { timeout: 300_000 }, async (context) => {
  let arrived = (): void => {};
  const firstArrived = new Promise<void>((resolve) => (arrived = resolve));
  const url = await serve(context, (request, response) => {
    let text = "";
    request
      .pipe(createGunzip())
      .on("data", (part: Buffer) => {
        text += part.toString();
        if (text.includes("first")) arrived();
      })
      .on("end", () => envelope(response, { text }));
  });
  async function* slow(): AsyncGenerator<string[]> {
    yield ["first"];
    // Without a flush the first line never arrives, and this waits forever.
    await firstArrived;
    yield ["second"];
  }
  const { data } = await send(url, slow(), 10);
  assert.deepEqual(data, { text: "first\nsecond\n" });
});

test("a body that fails is a failed request", async (context) => {
  const url = await serve(context, async (request, response) => {
    await bodyOf(request).catch(() => null);
    if (!response.destroyed) envelope(response, {});
  });
  async function* broken(): AsyncGenerator<string[]> {
    yield ["one"];
    throw new Error("a guild cannot be described");
  }
  await assert.rejects(send(url, broken()));
});

test("the key does not follow a redirect", async (context) => {
  let elsewhere = 0;
  const other = await serve(context, (_, response) => {
    elsewhere += 1;
    envelope(response, {});
  });
  const url = await serve(context, (_, response) => {
    response.writeHead(307, { location: other });
    response.end();
  });
  assert.equal((await send(url, ["{}"])).status, 307);
  assert.equal(elsewhere, 0);
});

test("a response without the envelope has no data", async (context) => {
  const answers = ["<html>", "[]", "null", '{"code":200}', '{"code":404,"data":{}}', '{"code":200,"data":{"a":"' + "x".repeat(300_000) + '"}}'];
  let next = 0;
  const url = await serve(context, (_, response) => response.end(answers[next++]));
  for (const answer of answers) assert.equal((await send(url, ["{}"])).data ?? null, null, answer.slice(0, 40));
});

// The same routes in Fastify: node server.js DATA_FILE. One process per core; the first prints the URL.

import cluster from "node:cluster";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import cors from "@fastify/cors";
import Fastify from "fastify";

import * as schemas from "./schemas.js";

const DRAWN = 5;

if (cluster.isPrimary) {
  const workers = Array.from({ length: availableParallelism() }, () => cluster.fork());
  cluster.once("listening", (_, { address, port }) => console.log(`http://${address}:${port}`));
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => workers.forEach((worker) => worker.kill()));
  }
} else {
  const data = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const sessions = new Map(Object.entries(data.sessions));
  const app = Fastify();
  const ok = (data) => ({ code: 200, message: "OK", data });

  await app.register(cors, { origin: "*" });

  app.get("/", { schema: schemas.status }, async (request) => {
    const arrived = performance.now();
    const sent = Number(request.headers["sent-epoch"]);
    const response = sent ? Math.max(0, Date.now() - sent * 1000) : null;
    const latency = { response, process: performance.now() - arrived };
    return ok({ ...data.status, health: { ...data.status.health, api: { latency } } });
  });

  app.get("/team", { schema: schemas.team }, async (_, reply) => {
    reply.header("Cache-Control", "public, max-age=60, stale-while-revalidate=300");
    return ok(data.team);
  });

  app.get("/feedback", { schema: schemas.feedback }, async () => {
    const drawn = new Set();
    while (drawn.size < DRAWN) drawn.add(data.feedback[Math.floor(Math.random() * data.feedback.length)]);
    return ok([...drawn]);
  });

  app.get("/guilds", { schema: schemas.guilds }, async (request, reply) => {
    const session = sessions.get(request.headers.token);
    if (!session) return reply.code(401).send({ code: 401, message: "Unauthorized", data: {} });
    reply.header("Cache-Control", "no-store");
    return ok(session.guilds);
  });

  await app.listen({ host: "127.0.0.1", port: 0 });
}

// The routes' response schemas. Fastify compiles a serialiser for each.

const text = { type: "string" };
const number = { type: "number" };
const integer = { type: "integer" };
const flag = { type: "boolean" };
const object = (properties) => ({ type: "object", properties });
const list = (items) => ({ type: "array", items });
const answer = (data) => ({ response: { 200: object({ code: integer, message: text, data }) } });

const user = object({ username: text, name: text, id: text, avatar: text });
const shard = object({ heartbeatSent: number, heartbeatAcknowledged: number, latency: number });
const permissions = object(
  Object.fromEntries(
    [
      "ERLC_STAFF", "SERVICE_PLUS_GUILD", "QUALITY_ASSURANCE", "ERLC_ADMIN", "DOCWRITER", "FOUNDER", "ERLC_MANAGER",
      "MANAGE_SERVER", "EXECUTIVE", "BOT_DEVELOPER", "WEB_DEVELOPER", "SETUP", "SESSION_STARTER", "MOD", "SUPPORT",
      "MANAGEMENT", "ADMIN", "SERVICE_STAFF", "ERLC_LINKED", "SERVICE_PLUS_MEMBER",
    ].map((name) => [name, flag]),
  ),
);

export const status = answer(
  object({
    version: object({
      name: text,
      branch: text,
      commit: object({ sha: text, message: text, author: text, timestamp: integer }),
    }),
    resources: object({ memory: number }),
    health: object({
      api: object({ latency: object({ response: { type: ["number", "null"] }, process: number }) }),
      bot: object({
        shards: { type: "object", additionalProperties: shard },
        uptime: object({ readable: text, epoch: integer }),
      }),
    }),
  }),
);

export const team = answer(
  list(
    object({
      username: text, name: text, avatar: text, discord_id: text, role: text, color: text, category: text, position: integer,
    }),
  ),
);

export const feedback = answer(list(object({ feedback: text, rating: integer, timestamp: integer, submitter: user })));

export const guilds = answer(
  list(
    object({
      name: text, id: text, icon: text, members: integer, owner: text, role: text, service: flag,
      plus: object({ plus: object({ userid: text, guilds: list(text), slots: integer }), active: flag }),
      permissions,
    }),
  ),
);

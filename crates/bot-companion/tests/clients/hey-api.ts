// What a dashboard does, with a client made by @hey-api/openapi-ts.
import assert from "node:assert/strict";
import { client } from "./generated/hey-api/client.gen.js";
import * as api from "./generated/hey-api/index.js";

let token = "";
client.setConfig({ baseUrl: process.env["URL"]!, auth: () => token });

const signedIn = await api.signIn({ headers: { "Idp-Code": "owner" } });
assert(signedIn.data);
const user: api.User = signedIn.data.data.user;
assert.match(user.id, /^[1-9][0-9]+$/);
token = signedIn.data.data.token;

const guilds = await api.listGuilds();
assert(guilds.data);
const first: api.Guild = guilds.data.data[0]!;
assert.equal(first.role, "Owner");

const guild = await api.getGuild({ path: { id: first.id } });
assert.deepEqual(guild.data?.data, first);

const unknown = await api.getGuild({ path: { id: "1" } });
assert(unknown.error?.code === 404);
const notFound: "guild_not_found" | "not_found" = unknown.error.data.error;
assert.equal(notFound, "guild_not_found");

// The streams are read as events.
const stop = new AbortController();
const live = await api.streamMyChanges({ signal: stop.signal, sseMaxRetryAttempts: 1 });
for await (const event of live.stream) {
  const topics: api.UserLiveTopic[] | undefined = event.changed;
  assert.deepEqual(topics, ["status", "team", "feedback", "stats", "guilds", "sessions", "me"]);
  break;
}
stop.abort();

assert.deepEqual((await api.signOut()).data, { code: 200, message: "OK", data: {} });

const refused = await api.listGuilds();
assert(refused.error?.code === 401);
const unauthorized: "token_missing" | "token_invalid" = refused.error.data.error;
assert.equal(unauthorized, "token_invalid");
// @ts-expect-error: no such code is documented for this operation.
assert(refused.error.data.error !== "user_blocked");

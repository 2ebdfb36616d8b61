// What a dashboard does, with a client made by orval.
import assert from "node:assert/strict";
import * as api from "./generated/orval.js";

const signedIn = await api.signIn({ "Idp-Code": "owner" });
assert(signedIn.status === 200);
const user: api.User = signedIn.data.data.user;
assert.match(user.id, /^[1-9][0-9]+$/);
const headers = { Token: signedIn.data.data.token };

const guilds = await api.listGuilds(undefined, { headers });
assert(guilds.status === 200);
const first: api.Guild = guilds.data.data[0]!;
assert.equal(first.role, "Owner");

const guild = await api.getGuild(first.id, { "Cache-Control": "no-cache" }, { headers });
assert(guild.status === 200);
assert.deepEqual(guild.data.data, first);

const unknown = await api.getGuild("1", undefined, { headers });
assert(unknown.status === 404);
const notFound: "guild_not_found" | "not_found" = unknown.data.data.error;
assert.equal(notFound, "guild_not_found");

const refused = await api.listGuilds(undefined, { headers: { Token: "nonsense" } });
assert(refused.status === 401);
const unauthorized: "token_missing" | "token_invalid" = refused.data.data.error;
assert.equal(unauthorized, "token_invalid");
// @ts-expect-error: no such code is documented for this operation.
assert(refused.data.data.error !== "user_blocked");

const signedOut = await api.signOut({ headers });
assert.deepEqual(signedOut.data, { code: 200, message: "OK", data: {} });

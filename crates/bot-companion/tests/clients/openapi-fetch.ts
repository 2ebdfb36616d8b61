// What a dashboard does, with a client made by openapi-typescript and openapi-fetch.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema.js";

const client = createClient<paths>({ baseUrl: process.env["URL"]! });

const signedIn = await client.POST("/auth", { params: { header: { "Idp-Code": "owner" } } });
assert(signedIn.data);
const user: components["schemas"]["User"] = signedIn.data.data.user;
assert.match(user.id, /^[1-9][0-9]+$/);
const headers = { Token: signedIn.data.data.token };

const guilds = await client.GET("/guilds", { headers });
assert(guilds.data);
const code: 200 = guilds.data.code;
assert.equal(code, guilds.response.status);
const first = guilds.data.data[0]!;
assert.equal(first.role, "Owner");
assert.equal(first.permissions.MANAGE_SERVER, true);

const guild = await client.GET("/guilds/{id}", {
  params: { path: { id: first.id }, header: { "Cache-Control": "no-cache" } },
  headers,
});
assert.deepEqual(guild.data?.data, first);

const unknown = await client.GET("/guilds/{id}", { params: { path: { id: "1" } }, headers });
assert(unknown.error?.code === 404);
const notFound: "guild_not_found" | "not_found" = unknown.error.data.error;
assert.equal(notFound, "guild_not_found");

const refused = await client.GET("/guilds", { headers: { Token: "nonsense" } });
assert(refused.error?.code === 401);
const unauthorized: "token_missing" | "token_invalid" = refused.error.data.error;
assert.equal(unauthorized, "token_invalid");
// @ts-expect-error: no such code is documented for this operation.
assert(refused.error.data.error !== "user_blocked");

const signedOut = await client.DELETE("/auth", { headers });
assert.deepEqual(signedOut.data, { code: 200, message: "OK", data: {} });
assert.equal((await client.GET("/me", { headers })).error?.data.error, "token_invalid");

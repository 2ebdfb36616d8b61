// The function of docs/dashboard.md that reads a user's live stream, run as it is printed there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const page = await readFile(process.env["PAGE"], "utf8");
const listen = new Function(`return ${page.match(/```js\n(async function listen[^]*?)```/)[1]}`)();

const service = process.env["URL"];
const signedIn = await fetch(`${service}/auth`, { method: "POST", headers: { "Idp-Code": "member" } });
const token = (await signedIn.json()).data.token;
const heard = [];
const changed = (topics) => {
  heard.push(topics);
  // The session's end is the end of the stream.
  if (heard.length === 1) void fetch(`${service}/auth`, { method: "DELETE", headers: { Token: token } });
};
assert.equal(await listen(service, token, changed, () => "ended"), "ended");
assert.deepEqual(heard[0], ["status", "team", "feedback", "stats", "guilds", "sessions", "me"]);
await assert.rejects(listen(service, token, changed, () => undefined), { message: "token_invalid" });

import { readConfig } from "./config.js";
import { GRANT_KEYS, probableKey } from "./grants.js";
import { probeSpool } from "./spool.js";
import { reasonOf } from "./status.js";

/** The result of a check; "-" if it wasn't run. */
export interface Finding {
  state: "ok" | "wrong" | "-";
  subject: string;
  message: string;
}

/** With a larger difference, subscriptions end at confusing times. */
const MOST_SKEW = 30;
/** A server that takes longer counts as down. */
const PATIENCE = 15_000;
/** The application flags that mean the members intent is on; one is for bots in fewer than 100 guilds. */
const MEMBERS_FLAGS = (1 << 14) | (1 << 15);

function finding(state: Finding["state"], subject: string, message: string): Finding {
  return { state, subject, message };
}

/** The service's address, the key, and the clock. */
export async function checkService(): Promise<Finding[]> {
  let config: { url: string; key: string };
  try {
    config = readConfig({});
  } catch (error) {
    return [finding("wrong", "configuration", reasonOf(error))];
  }
  const url = config.url.replace(/\/+$/, "");
  const began = Date.now();
  let response: Response;
  try {
    response = await fetch(`${url}/bot/state`, {
      headers: { authorization: `Bearer ${config.key}` }, redirect: "manual", signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (error) {
    return [finding("wrong", "address", `${url} does not answer: ${reasonOf(error)}. Is the service running there, and can this machine reach it?`)];
  }
  const ended = Date.now();
  if (!(await isEnvelope(response))) {
    const where = response.status >= 300 && response.status < 400 ? "redirects to another address: use that one" : "is another server: check COMPANION_URL, including its base path";
    return [finding("wrong", "address", `what answers at ${url} ${where} (status ${response.status})`)];
  }
  return [finding("ok", "address", `the service answers at ${url}`), keyFinding(response.status), clockFinding(response, began, ended)];
}

async function isEnvelope(response: Response): Promise<boolean> {
  try {
    const envelope = (await response.json()) as { code?: unknown; data?: unknown } | null;
    return envelope?.code === response.status && typeof envelope.data === "object";
  } catch {
    return false;
  }
}

function keyFinding(status: number): Finding {
  if (status === 200) return finding("ok", "key", "the service accepts it");
  if (status === 401) return finding("wrong", "key", "the service refuses COMPANION_BOT_KEY: `bot-companion key list` shows whether it was revoked; create one with `bot-companion key create`");
  if (status === 404) return finding("wrong", "address", "the service does not know the path: COMPANION_URL lacks the base path, or has one that it should not have");
  return finding("wrong", "key", `the service answers with status ${status}: try again later, and check its log`);
}

function clockFinding(response: Response, began: number, ended: number): Finding {
  const theirs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(theirs)) return finding("-", "clock", "not checked: the response has no date");
  // The header has whole seconds, and was written somewhere between these two times.
  const ahead = Math.round(((began + ended) / 2 - theirs) / 1_000);
  if (Math.abs(ahead) <= MOST_SKEW) return finding("ok", "clock", "agrees with the service's");
  return finding("wrong", "clock", `this machine's clock is ${Math.abs(ahead)} s ${ahead > 0 ? "ahead of" : "behind"} the service's: synchronise both (NTP)`);
}

/** Whether the members intent is turned on at Discord. */
export async function checkIntents(token: string | undefined, api: string): Promise<Finding> {
  if (!token) return finding("-", "intents", "not checked: set DISCORD_TOKEN");
  let response: Response;
  let application: { flags?: unknown };
  try {
    response = await fetch(`${api.replace(/\/+$/, "")}/v10/applications/@me`, {
      headers: { authorization: `Bot ${token}` }, redirect: "manual", signal: AbortSignal.timeout(PATIENCE),
    });
    application = (await response.json()) as typeof application;
  } catch (error) {
    return finding("wrong", "intents", `Discord does not answer: ${reasonOf(error)}`);
  }
  if (response.status === 401) return finding("wrong", "intents", "Discord refuses DISCORD_TOKEN: copy it again from the developer portal, Bot, Token");
  if (response.status !== 200) return finding("wrong", "intents", `Discord answers with status ${response.status}: try again later`);
  if (Number(application.flags) & MEMBERS_FLAGS) return finding("ok", "intents", "GuildMembers is turned on; the client needs it too, in `intents`");
  return finding("wrong", "intents", "GuildMembers is not turned on: developer portal, Bot, Server Members Intent. Without it, staff is not sent");
}

/** The keys that the bot's `grants` callback uses, separated by commas. */
export function checkGrantKeys(keys: string | undefined): Finding {
  if (keys === undefined) return finding("-", "grant keys", "not checked: pass the keys your callback uses, for example --grant-keys ADMIN,MOD");
  const wrong = keys.split(",").map((key) => key.trim()).filter((key) => !(GRANT_KEYS as readonly string[]).includes(key));
  if (wrong.length === 0) return finding("ok", "grant keys", "a role can grant each of them");
  const named = wrong.map((key) => {
    const meant = probableKey(key);
    return `"${key}"${meant ? ` (did you mean ${meant}?)` : ""}`;
  });
  return finding("wrong", "grant keys", `no role can grant ${named.join(", ")}; there are ${GRANT_KEYS.join(", ")}`);
}

/** Whether the spool can be written. */
export function checkSpool(path: string | undefined): Finding {
  if (!path) return finding("-", "spool", "none: waiting feedback is lost if the process is killed. Set COMPANION_SPOOL to a file");
  try {
    probeSpool(path);
    return finding("ok", "spool", `${path} can be written`);
  } catch (error) {
    return finding("wrong", "spool", `${path} cannot be written: ${reasonOf(error)}`);
  }
}

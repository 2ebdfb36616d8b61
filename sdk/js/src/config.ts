import type { Options } from "./types.js";

/** A value, and its name in the place where it was set. */
interface Given {
  value: string;
  name: string;
}

function given(value: unknown, option: string, variable: string): Given {
  if (value !== undefined) return { value: String(value), name: `the option ${option}` };
  return { value: process.env[variable] ?? "", name: variable };
}

/** The service's address and the key. The error says what is wrong without showing values, because someone may have swapped the two. */
export function readConfig(options: Pick<Options, "url" | "key">): { url: string; key: string } {
  const url = given(options.url, "url", "COMPANION_URL");
  const key = given(options.key, "key", "COMPANION_BOT_KEY");
  const problem = problemOfUrl(url.value);
  if (problem) throw new Error(`${url.name} ${problem}`);
  const flaw = problemOfKey(key.value);
  if (flaw) throw new Error(`${key.name} ${flaw}`);
  return { url: url.value, key: key.value };
}

function problemOfUrl(url: string): string | null {
  if (url === "") return "is not set: set it to the service's address, for example https://companion.example.org";
  if (url !== url.trim()) return "begins or ends with a space or a line break: remove it";
  if (/^bck_/.test(url)) return "contains a key: put the service's address here, and the key in COMPANION_BOT_KEY";
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return "has no scheme: begin it with https:// or http://";
  if (!/^https?:/i.test(url)) return "must begin with https:// or http://";
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return "is not an address: use one like https://companion.example.org";
  }
  if (parsed.username || parsed.password) return "contains a username or password: remove it, the key belongs in COMPANION_BOT_KEY";
  if (parsed.search || parsed.hash) return "has a part after ? or #: remove it";
  return null;
}

function problemOfKey(key: string): string | null {
  if (key === "") return "is not set: create a key with `bot-companion key create --label NAME`";
  if (/[\r\n]/.test(key)) return "has a line break in it: remove it, the key is one word";
  if (/\s/.test(key)) return "has a space in it: remove it, the key is one word";
  if (!/^bck_[\x21-\x7e]+$/.test(key)) return "is not a bot key: bot keys begin with bck_. Discord's token is something else";
  return null;
}

import { types } from "node:util";
import { idOf } from "./ids.js";
import type { Status } from "./status.js";
import type { Grants, GuildPermission } from "./types.js";

/** What a role can grant. */
export const GRANT_KEYS = ["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"] as const satisfies readonly GuildPermission[];
const KNOWN = new Set<string>(GRANT_KEYS);
/** The service's limit. */
const MOST_ROLES = 250;

/** The callback's answer, without keys that no role can grant. Throws if it's incomplete: a slip must not take permissions away. */
export function readGrants(value: unknown, guild: string, status: Status): Grants {
  const grants: Record<string, GuildPermission[]> = {};
  for (const [named, keys] of entriesOf(value)) {
    const role = idOf(named);
    if (role === null) throw new TypeError(`grants names ${shown(named)} in guild ${guild}, which is not a role ID`);
    const known = textsOf(keys, role).filter((key) => isKnown(key, role, guild, status));
    if (known.length > 0) grants[role] = known as GuildPermission[];
  }
  return bounded(grants, guild, status);
}

/** The roles and their keys, from an object or a Map (like discord.js' Collection). */
function entriesOf(value: unknown): Iterable<[unknown, unknown]> {
  if (types.isMap(value)) return value.entries();
  if (isPlainObject(value)) return Object.entries(value);
  throw new TypeError("grants must return an object or a Map from role IDs to keys; an empty one if nothing is granted");
}

/** Anything else, like a Set or a Date, would look like an object without roles. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function textsOf(keys: unknown, role: string): string[] {
  const isList = typeof keys === "object" && keys !== null && Symbol.iterator in keys;
  const texts = isList ? [...(keys as Iterable<unknown>)] : null;
  if (texts?.every((key) => typeof key === "string")) return texts as string[];
  throw new TypeError(`grants must give a list of keys for each role, but does not for ${role}`);
}

function shown(value: unknown): string {
  return typeof value === "string" ? `"${value.slice(0, 64)}"` : `a ${typeof value}`;
}

function isKnown(key: string, role: string, guild: string, status: Status): boolean {
  if (KNOWN.has(key)) return true;
  const text = key.slice(0, 64);
  const meant = probableKey(text);
  const hint = meant ? `did you mean ${meant}?` : `a role can grant ${GRANT_KEYS.join(", ")}`;
  status.warnOnce(`grants ${text}`, `grants names "${text}" for role ${role} of guild ${guild}, which no role can grant: ${hint}`);
  return false;
}

function bounded(grants: Grants, guild: string, status: Status): Grants {
  const roles = Object.entries(grants);
  if (roles.length <= MOST_ROLES) return grants;
  status.warnOnce(`grants many ${guild}`, `grants names more than ${MOST_ROLES} roles of guild ${guild}: the rest is left out`);
  return Object.fromEntries(roles.slice(0, MOST_ROLES));
}

/** The key that was probably meant; null if none is close. */
export function probableKey(text: string): GuildPermission | null {
  const given = text.slice(0, 64).trim().toUpperCase().replace(/[\s-]+/g, "_");
  let best: GuildPermission | null = null;
  let least = Infinity;
  for (const key of GRANT_KEYS) {
    const edits = distance(given, key);
    if (edits < least) [best, least] = [key, edits];
  }
  if (least <= Math.max(1, Math.floor(given.length / 3))) return best;
  return GRANT_KEYS.find((key) => given.length >= 3 && (given.startsWith(key) || key.startsWith(given))) ?? null;
}

/** How many letters have to be added, removed or replaced (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

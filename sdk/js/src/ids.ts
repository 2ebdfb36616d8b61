const SNOWFLAKE = /^[1-9][0-9]{0,19}$/;

/** An id as the service wants it: text. BigInts are taken, too; numbers are not, because they lose digits. Null if it is no id. */
export function idText(value: unknown): string | null {
  const text = typeof value === "bigint" ? String(value) : value;
  return typeof text === "string" && SNOWFLAKE.test(text) ? text : null;
}

/** The id of something that discord.js knows (a guild, a role), or the id itself. */
export function idOf(value: unknown): string | null {
  return idText(typeof value === "object" && value !== null ? (value as { id?: unknown }).id : value);
}

/** JSON in which BigInts are text, as ids are. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? String(one) : one));
}

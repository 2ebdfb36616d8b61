const SNOWFLAKE = /^[1-9][0-9]{0,19}$/;

/** An ID in the service's format: text. BigInts are accepted, too; numbers are not, because they lose digits. Null if it isn't an ID. */
export function idText(value: unknown): string | null {
  const text = typeof value === "bigint" ? String(value) : value;
  return typeof text === "string" && SNOWFLAKE.test(text) ? text : null;
}

/** The ID of a discord.js object (a guild, a role), or the ID itself. */
export function idOf(value: unknown): string | null {
  return idText(typeof value === "object" && value !== null ? (value as { id?: unknown }).id : value);
}

/** The object with its ID as text, which JSON can represent. Everything else stays as it is. */
export function withTextId<Value>(value: Value, name: string): Value {
  const id = (value as Record<string, unknown> | null | undefined)?.[name];
  return typeof id === "bigint" ? { ...value, [name]: String(id) } : value;
}

/** The path if it can only lead to a page of the same origin, in its normal form; else `/`. Browsers take `//host`, `/\host` and the
 * same with tabs or line breaks in between for another site's address. */
export function safePath(path: unknown): string {
  if (typeof path !== "string" || !/^\/(?![/\\])[^\\\x00-\x1f\x7f]*$/.test(path)) return "/";
  const { pathname, search, hash } = new URL(path, "http://localhost");
  // `/.//host` has become `//host`.
  return pathname.startsWith("//") ? "/" : pathname + search + hash;
}

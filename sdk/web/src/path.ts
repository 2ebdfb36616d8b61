/** Returns the path, normalised, if it stays on this origin, and `/` if not. Browsers treat `//host`, `/\host`, and the same with tabs
 * or line breaks in between, as another site's URL. */
export function safePath(path: unknown): string {
  if (typeof path !== "string" || !/^\/(?![/\\])[^\\\x00-\x1f\x7f]*$/.test(path)) return "/";
  const { pathname, search, hash } = new URL(path, "http://localhost");
  // `/.//host` normalises to `//host`.
  return pathname.startsWith("//") ? "/" : pathname + search + hash;
}

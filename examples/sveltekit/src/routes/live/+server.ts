import { companion, serviceUrl } from "$lib/server/companion";

/** The service's stream of changes, which a page cannot open itself: it does not have the token. */
export async function GET({ request }) {
  const { signal } = request;
  const token = companion.token(request);
  let stream = token ? await fetch(`${serviceUrl}/me/live`, { headers: { Token: token }, signal }) : undefined;
  // Nobody is signed in, or not any more.
  if (!stream || stream.status === 401) stream = await fetch(`${serviceUrl}/live`, { signal });
  const type = stream.headers.get("Content-Type") ?? "text/plain";
  return new Response(stream.body, { status: stream.status, headers: { "Content-Type": type, "Cache-Control": "no-store" } });
}

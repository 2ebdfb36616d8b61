import { companion, serviceUrl } from "$lib/server/companion";

/** Proxies the service's live stream, because the page doesn't have the token. */
export async function GET({ request }) {
  const { signal } = request;
  const token = companion.token(request);
  let stream = token ? await fetch(`${serviceUrl}/me/live`, { headers: { Token: token }, signal }) : undefined;
  // No one is signed in.
  if (!stream || stream.status === 401) stream = await fetch(`${serviceUrl}/live`, { signal });
  const type = stream.headers.get("Content-Type") ?? "text/plain";
  return new Response(stream.body, { status: stream.status, headers: { "Content-Type": type, "Cache-Control": "no-store" } });
}

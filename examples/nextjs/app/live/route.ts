import { companion, serviceUrl } from "../../lib/companion";

/** Proxies the service's live stream, because the page doesn't have the token. */
export async function GET(request: Request): Promise<Response> {
  const { signal } = request;
  const token = companion.token(request);
  const open = (path: string, headers = {}) => fetch(serviceUrl + path, { headers, signal, cache: "no-store" });
  let stream = token ? await open("/me/live", { Token: token }) : undefined;
  // No one is signed in.
  if (!stream || stream.status === 401) stream = await open("/live");
  const type = stream.headers.get("Content-Type") ?? "text/plain";
  return new Response(stream.body, { status: stream.status, headers: { "Content-Type": type, "Cache-Control": "no-store" } });
}

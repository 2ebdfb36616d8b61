import { companion } from "$lib/server/companion";
import type { RequestHandler } from "./$types";

/** Passes on the service's live stream, because the page doesn't have the token. */
export const GET: RequestHandler = ({ request }) => companion.live(request);

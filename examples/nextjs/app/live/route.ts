import { companion } from "../../lib/companion";

/** Passes on the service's live stream, because the page doesn't have the token. */
export const GET = (request: Request) => companion.live(request);

import { companion } from "$lib/server/companion";
import type { RequestHandler } from "./$types";

/** The provider redirects the user here. Only completes a sign-in that this browser started; any other code is ignored. */
export const GET: RequestHandler = ({ request }) => companion.callback(request);

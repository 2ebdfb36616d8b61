import { companion } from "$lib/server/companion";
import type { RequestHandler } from "./$types";

export const GET: RequestHandler = ({ request }) => companion.signIn(request);

import { companion } from "$lib/server/companion";

/** The provider redirects the user here. Only completes a sign-in that this browser started; any other code is ignored. */
export const GET = ({ request }) => companion.callback(request);

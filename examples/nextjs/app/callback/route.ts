import { companion } from "../../lib/companion";

/** The provider redirects the user here. Only completes a sign-in that this browser started; any other code is ignored. */
export const GET = (request: Request) => companion.callback(request);

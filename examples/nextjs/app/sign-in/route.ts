import { companion } from "../../lib/companion";

export const GET = (request: Request) => companion.signIn(request);

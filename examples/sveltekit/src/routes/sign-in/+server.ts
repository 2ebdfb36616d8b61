import { companion } from "$lib/server/companion";

export const GET = ({ request }) => companion.signIn(request);

import { CompanionError } from "@bot-companion/web/server";
import { redirect } from "@sveltejs/kit";
import { companion } from "$lib/server/companion";

/** The provider sends the user back here. Only a sign-in that this browser began is ended; a stranger's code is not even used. */
export async function GET({ request }) {
  try {
    return await companion.callback(request);
  } catch (error) {
    if (error instanceof CompanionError) redirect(303, `/?problem=${error.code}`);
    throw error;
  }
}

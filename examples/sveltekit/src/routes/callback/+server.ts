import { CompanionError } from "@bot-companion/web/server";
import { redirect } from "@sveltejs/kit";
import { companion } from "$lib/server/companion";

/** The provider redirects the user here. Only completes a sign-in that this browser started; any other code is ignored. */
export async function GET({ request }) {
  try {
    return await companion.callback(request);
  } catch (error) {
    if (error instanceof CompanionError) redirect(303, `/?problem=${error.code}`);
    throw error;
  }
}

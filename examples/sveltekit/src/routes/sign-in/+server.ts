import { CompanionError } from "@bot-companion/web/server";
import { redirect } from "@sveltejs/kit";
import { companion } from "$lib/server/companion";

export async function GET({ request }) {
  try {
    return await companion.signIn(request);
  } catch (error) {
    if (error instanceof CompanionError) redirect(303, `/?problem=${error.code}`);
    throw error;
  }
}

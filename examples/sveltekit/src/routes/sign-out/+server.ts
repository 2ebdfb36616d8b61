import { CompanionError } from "@bot-companion/web/server";
import { redirect } from "@sveltejs/kit";
import { companion } from "$lib/server/companion";

export async function POST({ request, url }) {
  try {
    return await companion.signOut(request, { everywhere: url.searchParams.has("everywhere") });
  } catch (error) {
    if (error instanceof CompanionError) redirect(303, `/?sign_in_error=${error.code}`);
    throw error;
  }
}

import { CompanionError } from "@bot-companion/web/server";
import { companion } from "$lib/server/companion";

export async function load({ request, parent }) {
  const { user } = await parent();
  if (!user) return { guilds: null };
  try {
    return { guilds: await companion.api(request).guilds() };
  } catch (error) {
    if (error instanceof CompanionError) return { guilds: null, problem: error.code };
    throw error;
  }
}

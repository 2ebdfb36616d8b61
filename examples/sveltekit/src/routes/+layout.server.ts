import { CompanionError } from "@bot-companion/web/server";
import { companion } from "$lib/server/companion";

export async function load({ request }) {
  try {
    const [me, status] = await Promise.all([companion.session(request), companion.api(request).status()]);
    return { user: me?.user ?? null, uptime: status.health.bot.uptime.readable, problem: null };
  } catch (error) {
    if (error instanceof CompanionError) return { user: null, uptime: "offline", problem: error.code };
    throw error;
  }
}

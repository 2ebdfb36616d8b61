import { CompanionError } from "@bot-companion/web/server";
import { companion } from "$lib/server/companion";

export async function load({ request }) {
  const session = await companion.session(request);
  const view = { state: session.state, user: session.state === "in" ? session.me.user : null };
  // The service doesn't respond, so don't make the user wait for another call.
  if (session.state === "unknown") return { ...view, uptime: null, problem: session.error.code };
  try {
    const status = await companion.api(request).status();
    return { ...view, uptime: status.health.bot.uptime.readable, problem: null };
  } catch (error) {
    if (error instanceof CompanionError) return { ...view, uptime: null, problem: error.code };
    throw error;
  }
}

import { CompanionError } from "@bot-companion/web/server";
import { error, fail } from "@sveltejs/kit";
import { kindly } from "$lib/kindly";
import { companion } from "$lib/server/companion";
import { GREETING_LENGTH, readSettings, saveSettings } from "$lib/server/settings";

/** The guild, if the user may change its settings. */
async function administered(request: Request, id: string, fresh: boolean) {
  const guild = await companion.api(request).guild(id, { fresh });
  return guild.permissions.ADMIN ? guild : null;
}

export async function load({ request, params }) {
  try {
    const guild = await administered(request, params.id, false);
    if (!guild) error(403, kindly("not_allowed"));
    return { name: guild.name, settings: await readSettings(guild.id), longest: GREETING_LENGTH };
  } catch (problem) {
    if (problem instanceof CompanionError) error(problem.status || 502, kindly(problem.code));
    throw problem;
  }
}

export const actions = {
  /** `api` refuses requests from other sites. `fresh` asks the provider now, so that a user who has just lost their role can't save. */
  async default({ request, params }) {
    try {
      const guild = await administered(request, params.id, true);
      if (!guild) return fail(403, { problem: "not_allowed" });
      const greeting = String((await request.formData()).get("greeting") ?? "");
      if (greeting.length > GREETING_LENGTH) return fail(422, { problem: "too_long" });
      await saveSettings(guild.id, { greeting });
      return { saved: true };
    } catch (problem) {
      if (problem instanceof CompanionError) return fail(problem.status || 502, { problem: problem.code });
      throw problem;
    }
  },
};

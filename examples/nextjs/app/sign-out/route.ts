import { CompanionError } from "@bot-companion/web/server";
import { companion } from "../../lib/companion";

export async function POST(request: Request): Promise<Response> {
  try {
    return await companion.signOut(request, { everywhere: new URL(request.url).searchParams.has("everywhere") });
  } catch (error) {
    if (!(error instanceof CompanionError)) throw error;
    // A form on another site can't sign anyone out.
    if (error.code === "cross_site") return new Response(error.message, { status: 403 });
    return new Response(null, { status: 303, headers: { Location: `/?sign_in_error=${error.code}` } });
  }
}

import { env } from "$env/dynamic/private";
import { createServerCompanion } from "@bot-companion/web/server";

export const serviceUrl = env.COMPANION_URL ?? "http://127.0.0.1:8080";

// SvelteKit's Node server reads its own address from `ORIGIN`, too.
export const companion = createServerCompanion({
  url: serviceUrl,
  redirectUri: `${env.ORIGIN ?? "http://localhost:5173"}/callback`,
  // A sign-in that fails leads here, with `?sign_in_error=…`, which the layout explains.
  failureRedirect: "/",
});

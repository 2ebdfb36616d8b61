import { getRequestEvent } from "$app/server";
import { env } from "$env/dynamic/private";
import { createServerCompanion } from "@bot-companion/web/server";

// SvelteKit's Node server also reads its own address from `ORIGIN`.
export const companion = createServerCompanion({
  url: env.COMPANION_URL ?? "http://127.0.0.1:8080",
  redirectUri: `${env.ORIGIN ?? "http://localhost:5173"}/callback`,
  // If a sign-in fails, the user comes here with `?sign_in_error=…`, and the layout shows a message.
  failureRedirect: "/",
  // Behind a proxy, tell SvelteKit's Node server where to find it: ADDRESS_HEADER=X-Forwarded-For.
  clientAddress: () => getRequestEvent().getClientAddress(),
});

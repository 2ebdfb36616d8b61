import { env } from "$env/dynamic/private";
import { createServerCompanion } from "@bot-companion/web/server";

export const serviceUrl = env.COMPANION_URL ?? "http://127.0.0.1:8080";

// `ORIGIN` is also how SvelteKit's Node server learns its own address.
export const companion = createServerCompanion({
  url: serviceUrl,
  redirectUri: `${env.ORIGIN ?? "http://localhost:5173"}/callback`,
});

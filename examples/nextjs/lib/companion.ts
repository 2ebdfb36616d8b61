import { createServerCompanion } from "@bot-companion/web/server";

export const serviceUrl = process.env.COMPANION_URL ?? "http://127.0.0.1:8080";

export const companion = createServerCompanion({
  url: serviceUrl,
  redirectUri: `${process.env.ORIGIN ?? "http://localhost:3000"}/callback`,
  // A sign-in that fails leads here, with `?sign_in_error=…`, which the page explains.
  failureRedirect: "/",
});

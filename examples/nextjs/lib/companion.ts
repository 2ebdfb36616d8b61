import { createServerCompanion } from "@bot-companion/web/server";

export const serviceUrl = process.env.COMPANION_URL ?? "http://127.0.0.1:8080";

export const companion = createServerCompanion({
  url: serviceUrl,
  redirectUri: `${process.env.ORIGIN ?? "http://localhost:3000"}/callback`,
  // If a sign-in fails, the user comes here with `?sign_in_error=…`, and the page shows a message.
  failureRedirect: "/",
});

import { createServerCompanion } from "@bot-companion/web/server";

export const companion = createServerCompanion({
  url: process.env.COMPANION_URL ?? "http://127.0.0.1:8080",
  redirectUri: `${process.env.ORIGIN ?? "http://localhost:3000"}/callback`,
  // If a sign-in fails, the user comes here with `?sign_in_error=…`, and the page shows a message.
  failureRedirect: "/",
  // From the proxy in front of Next.js. Without one, Next.js adds it if the visitor hasn't sent any.
  clientAddress: ({ headers }) => headers.get("X-Forwarded-For"),
});

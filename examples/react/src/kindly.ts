import { CompanionError, type ErrorCode } from "@bot-companion/web";

const words: Partial<Record<ErrorCode, string>> = {
  access_denied: "You cancelled the sign-in. You can sign in any time.",
  state_mismatch: "This sign-in didn't start on this page, so you aren't signed in. Please sign in again.",
  scope_missing: "Discord didn't let us see your name and your servers. Please sign in again and allow both.",
  idp_code_rejected: "This sign-in has expired. Please sign in again.",
  user_blocked: "You're not allowed to sign in here. If you think that's a mistake, contact the bot's team.",
  idp_unavailable: "Discord isn't responding right now. Please try again in a minute.",
  idp_timeout: "Discord isn't responding right now. Please try again in a minute.",
  idp_misconfigured: "This site isn't set up correctly, so you can't sign in. Please tell its owner.",
  idp_rate_limited: "Discord is busy right now. Please try again in a minute.",
  rate_limited: "Too many attempts. Please try again in a minute.",
  network: "We can't reach the service. Please try again in a minute.",
};

/** Messages for users, by error code. Other codes show the service's own message. */
export function kindly(error: unknown): string {
  if (!(error instanceof CompanionError)) return "Something went wrong in this page. Please reload it.";
  return words[error.code] ?? `${error.message} ${error.requestId ? `(Request ${error.requestId})` : ""}`;
}

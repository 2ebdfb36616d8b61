import { CompanionError, type ErrorCode } from "@bot-companion/web";

const words: Partial<Record<ErrorCode, string>> = {
  access_denied: "You did not sign in. You can do so whenever you like.",
  state_mismatch: "This sign-in did not begin on this page, so nobody was signed in. Please sign in again.",
  idp_code_rejected: "This sign-in has expired. Please sign in again.",
  user_blocked: "You cannot sign in here. If that is a mistake, tell the bot's team.",
  idp_unavailable: "Discord does not answer right now. Please try again in a minute.",
  idp_timeout: "Discord does not answer right now. Please try again in a minute.",
  idp_rate_limited: "Discord is busy right now. Please try again in a minute.",
  rate_limited: "That was a little fast. Please try again in a minute.",
  network: "The service cannot be reached. Please try again in a minute.",
};

/** Messages for users, by error code. Other codes show the service's own message. */
export function kindly(error: unknown): string {
  if (!(error instanceof CompanionError)) return "Something went wrong in this page. Please reload it.";
  return words[error.code] ?? `${error.message} ${error.requestId ? `(Request ${error.requestId})` : ""}`;
}

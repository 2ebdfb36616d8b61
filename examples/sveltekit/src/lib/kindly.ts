const words: Record<string, string> = {
  access_denied: "You did not sign in. You can do so whenever you like.",
  state_mismatch: "This sign-in did not begin on this page, so nobody was signed in. Please sign in again.",
  idp_code_rejected: "This sign-in has expired. Please sign in again.",
  user_blocked: "You cannot sign in here. If that is a mistake, tell the bot's team.",
  idp_unavailable: "Discord does not answer right now. Please try again in a minute.",
  idp_timeout: "Discord does not answer right now. Please try again in a minute.",
  idp_rate_limited: "Discord is busy right now. Please try again in a minute.",
  rate_limited: "That was a little fast. Please try again in a minute.",
  network: "The service cannot be reached. Please try again in a minute.",
  token_missing: "Please sign in first.",
  token_invalid: "Your session is over. Please sign in again.",
  guild_not_found: "There is no such server, or you are not in it, or it does not have the bot.",
  not_allowed: "Only administrators of this server may change its settings.",
  too_long: "That greeting is too long.",
};

/** Messages for users, by error code. The code may come from the URL, so it is never displayed. */
export const kindly = (code: string): string => words[code] ?? "Something went wrong. Please try again in a minute.";

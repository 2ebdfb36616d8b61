const words: Record<string, string> = {
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
  token_missing: "Please sign in first.",
  token_invalid: "Your session has ended. Please sign in again.",
};

/** Messages for users, by error code. The code may come from the URL, so it is never displayed. */
export const kindly = (code: string): string => words[code] ?? "Something went wrong. Please try again in a minute.";

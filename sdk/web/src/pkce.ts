import { CompanionError } from "./errors.js";
import type { SignInOptions } from "./types.js";

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

/** 256 random bits, for a `state` or a PKCE verifier. */
export const random = (): string => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** A URL from the service. A `javascript:` URL would run in this page. */
export function webUrl(text: string): URL {
  try {
    const url = new URL(text);
    if (/^https?:$/.test(url.protocol)) return url;
  } catch {
    // Not a URL.
  }
  throw new CompanionError("bad_answer", "The service's sign-in URL isn't valid.");
}

/** The URL of the provider's page, with this `state` and the verifier's S256 challenge. */
export async function authorizePage(options: SignInOptions, state: string, verifier: string): Promise<string> {
  if (!crypto.subtle) throw new CompanionError("unsupported", "Signing in needs HTTPS or localhost.");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const page = webUrl(options.authorize_url);
  const parameters = {
    response_type: "code",
    client_id: options.client_id,
    scope: options.scope,
    redirect_uri: options.redirect_uri,
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) page.searchParams.set(name, value);
  return page.href;
}

import { CompanionError } from "./errors.js";
import type { SignInOptions } from "./types.js";

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

/** 256 random bits: a `state`, or a PKCE verifier. */
export const random = (): string => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** The provider's page for a sign-in with this `state` and this verifier's S256 challenge. */
export async function authorizePage(options: SignInOptions, state: string, verifier: string): Promise<string> {
  if (!crypto.subtle) throw new CompanionError("unsupported", "Signing in needs https, or http on localhost.");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const page = new URL(options.authorize_url);
  // Never a `javascript:` address, whatever the service says.
  if (!/^https?:$/.test(page.protocol)) throw new CompanionError("bad_answer", "The service names no page to sign in at.");
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

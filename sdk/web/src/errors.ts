import type { ServiceErrorCode } from "./types.js";

/** Errors that don't come from the service:
 * `network`: no response, or the service doesn't allow this page's origin; `bad_answer`: the response isn't from bot-companion;
 * `state_mismatch`: this sign-in didn't start in this tab; `access_denied`: the user cancelled at the provider;
 * `idp_error`: the provider returned another error; `unsupported`: the page isn't secure, or its storage is blocked;
 * `cross_site`: an unsafe request came from another site (server only). */
export type LocalErrorCode = "network" | "bad_answer" | "state_mismatch" | "access_denied" | "idp_error" | "unsupported" | "cross_site";

export type ErrorCode = ServiceErrorCode | LocalErrorCode;

export interface ErrorDetails {
  status?: number | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** Every error that this package throws, except aborts. `message` is for people; use `code` in your program. */
export class CompanionError extends Error {
  override readonly name = "CompanionError";
  /** The HTTP status, or 0 without a response. */
  readonly status: number;
  /** The request's ID in the service's log. Show it to users so that they can report a problem. */
  readonly requestId: string | undefined;
  /** How many seconds to wait before a retry, if the service says so. */
  readonly retryAfter: number | undefined;
  /** Where the user was when they started the sign-in that failed. Always a path on this origin. */
  returnTo: string | undefined;

  constructor(readonly code: ErrorCode, message: string, { status = 0, requestId, retryAfter, cause }: ErrorDetails = {}) {
    super(message, cause ? { cause } : {});
    this.status = status;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}

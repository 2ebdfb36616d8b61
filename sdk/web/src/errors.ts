import type { ServiceErrorCode } from "./types.js";

/** What goes wrong before or without an answer of the service:
 * `network`: no answer, or the service does not list this page's origin; `bad_answer`: an answer that is not the service's;
 * `state_mismatch`: this browser did not begin this sign-in; `access_denied`: the user refused at the provider;
 * `idp_error`: another error of the provider; `unsupported`: no secure context, or no storage to keep a sign-in in;
 * `cross_site`: a server refuses an unsafe request from another site. */
export type LocalErrorCode = "network" | "bad_answer" | "state_mismatch" | "access_denied" | "idp_error" | "unsupported" | "cross_site";

export type ErrorCode = ServiceErrorCode | LocalErrorCode;

export interface ErrorDetails {
  status?: number | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** Every failure of this package except an abort. `message` is for people; program against `code`. */
export class CompanionError extends Error {
  override readonly name = "CompanionError";
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** Identifies the request in the service's log; show it to people who want to report a problem. */
  readonly requestId: string | undefined;
  /** Seconds to wait, if the service says so. */
  readonly retryAfter: number | undefined;
  /** Of a sign-in that failed: where the user was when it began, always a path on this origin. */
  returnTo: string | undefined;

  constructor(readonly code: ErrorCode, message: string, { status = 0, requestId, retryAfter, cause }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}

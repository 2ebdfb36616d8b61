import { type NextRequest, NextResponse } from "next/server";

/** Sets a Content Security Policy: only this site's own scripts, which Next.js marks with the nonce, and no framing by other sites. */
export function proxy(request: NextRequest): NextResponse {
  const nonce = crypto.randomUUID();
  // In development, Next.js needs `eval`.
  const development = process.env.NODE_ENV === "development" ? " 'unsafe-eval'" : "";
  const policy = `script-src 'self' 'nonce-${nonce}' 'strict-dynamic'${development}; object-src 'none'; base-uri 'self'; frame-ancestors 'none'`;
  const headers = new Headers(request.headers);
  headers.set("Content-Security-Policy", policy);
  const response = NextResponse.next({ request: { headers } });
  response.headers.set("Content-Security-Policy", policy);
  return response;
}

export const config = { matcher: "/" };

//! Sign-in: one code one exchange, replays, PKCE, redirect addresses, refresh and revocation.

//! What browsers need: CORS, preflights, caching, `HEAD`, `OPTIONS`.

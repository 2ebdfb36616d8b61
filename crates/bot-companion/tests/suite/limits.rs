//! Rate limits, client addresses behind proxies, load shedding.

//! Sessions: two devices, expiry, the list of one's own, ending one or all, blocking.

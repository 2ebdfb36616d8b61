//! An acknowledged change is in the very next read, and the short way never differs from the router.

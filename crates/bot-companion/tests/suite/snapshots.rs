//! The bodies, to the letter.

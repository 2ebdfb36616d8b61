//! The identity provider, behind one trait, and the sandbox that stands in for it.

pub mod idp;
pub mod sandbox;

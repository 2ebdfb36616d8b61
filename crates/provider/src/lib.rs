//! The identity provider, behind one trait, and the sandbox used in its place.

pub mod idp;
pub mod sandbox;

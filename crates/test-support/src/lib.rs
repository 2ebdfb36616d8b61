//! What the tests of several crates share: a folder for one test, and inputs for fuzz tests. Only tests use it.

mod folder;
pub mod inputs;

pub use folder::TestFolder;

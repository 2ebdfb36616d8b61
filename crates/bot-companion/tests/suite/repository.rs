//! What the repository promises about itself: the committed OpenAPI document, the paths in ARCHITECTURE.md, the size of files.

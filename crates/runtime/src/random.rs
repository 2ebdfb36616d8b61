//! Randomness, passed to the parts that need it: secrets from the operating system, the rest from a fast generator that tests
//! can seed.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::rand;

#[derive(Debug)]
pub struct Random {
    state: AtomicU64,
}

impl Random {
    /// Seeded by the operating system.
    pub fn from_system() -> Self {
        let mut seed = [0; 8];
        secret_bytes(&mut seed);
        Self::seeded(u64::from_le_bytes(seed))
    }

    /// Always the same numbers (but never the same secrets).
    pub const fn seeded(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// The next number, good enough for sampling and jitter, never for a secret (`SplitMix64`).
    pub fn number(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Fills the bytes from the operating system's cryptographic source.
pub fn secret_bytes(bytes: &mut [u8]) {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for secret bytes")]
    #[expect(
        clippy::expect_used,
        reason = "without randomness no secret can be made; carrying on would be worse than stopping"
    )]
    rand::fill(bytes).expect("the operating system gives no random bytes");
}

//! What several tests share.

use super::ProviderRules;

pub(crate) const TEST_RULES: ProviderRules = ProviderRules {
    avatar: |user, hash| format!("avatar {user} {hash:?}").into(),
    guild_icon: |guild, icon| format!("icon {guild} {icon:?}").into(),
    may_manage_server: |bits| bits == 8,
};

/// Random numbers, the same in every run (`SplitMix64`).
pub(crate) fn seeded(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

//! Parts of a guild that a snapshot does not mention. They are carried over from the stored ones while the snapshot is staged
//! rather than at its commit, so that the commit stays small.

use super::CommittedShard;
use crate::Snowflake;

/// Which parts of a guild were not mentioned, and stay as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    pub grants: bool,
    pub staff: bool,
}

impl Carried {
    /// The bit for the grants in a column.
    pub const GRANTS: i64 = 1;
    /// The bit for the staff in a column.
    pub const STAFF: i64 = 2;

    pub fn any(self) -> bool {
        self.grants || self.staff
    }

    /// The value for a column.
    pub fn bits(self) -> i64 {
        i64::from(self.grants) * Self::GRANTS + i64::from(self.staff) * Self::STAFF
    }

    pub fn from_bits(bits: i64) -> Self {
        Self { grants: bits & Self::GRANTS != 0, staff: bits & Self::STAFF != 0 }
    }
}

/// How much of the carried parts of a guild is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedParts {
    /// The grants and all of the staff.
    All,
    /// One member of the staff.
    Member(Snowflake),
}

impl CarriedParts {
    pub fn has_grants(self) -> bool {
        self == Self::All
    }

    /// The only member to copy, if it isn't all of the staff.
    pub fn member(self) -> Option<Snowflake> {
        match self {
            Self::All => None,
            Self::Member(member) => Some(member),
        }
    }
}

/// No commit has this number, so a snapshot with it as its basis is outdated.
const NO_COMMIT: i64 = -1;

/// The commit that a staged snapshot's carried parts come from, when more lines are carried over while `latest` is the latest
/// commit that overlaps with it. Parts of two different commits match neither.
pub fn merge_basis(known: Option<i64>, latest: i64) -> i64 {
    if known.is_none_or(|known| known == latest) { latest } else { NO_COMMIT }
}

/// The latest commit among these; 0 if there is none.
pub fn latest_commit(overlapping: &[CommittedShard]) -> i64 {
    overlapping.iter().map(|sent| sent.committed).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_two_commits_are_the_truth_of_neither() {
        for (known, latest, basis) in [(None, 0, 0), (None, 7, 7), (Some(7), 7, 7), (Some(7), 8, -1), (Some(-1), 8, -1)]
        {
            assert_eq!(merge_basis(known, latest), basis);
        }
    }

    #[test]
    fn what_is_carried_comes_back_from_a_column() {
        for bits in 0..4 {
            assert_eq!(Carried::from_bits(bits).bits(), bits);
        }
        assert!(!Carried::from_bits(0).any() && Carried::from_bits(2).any());
    }

    #[test]
    fn one_member_brings_no_grants() {
        let member = Snowflake::new(7).unwrap();
        for (parts, grants, only) in
            [(CarriedParts::All, true, None), (CarriedParts::Member(member), false, Some(member))]
        {
            assert_eq!((parts.has_grants(), parts.member()), (grants, only), "{parts:?}");
        }
    }
}

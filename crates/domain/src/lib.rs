//! Pure rules and the types they are about: no I/O, no async, no framework. Nothing here imports another module of the service.

pub mod audit;
pub mod change;
pub mod feed;
pub mod feedback;
pub mod forgotten;
#[cfg(test)]
mod fuzz;
pub mod guild;
pub mod health;
pub mod history;
pub mod live;
pub mod permissions;
pub mod picture;
pub mod provider_rules;
pub mod retention;
pub mod revocation;
pub mod role;
pub mod saturating;
pub mod session;
pub mod sign_in;
pub mod slots;
pub mod snowflake;
pub mod staff;
pub mod stats;
pub mod subscription;
pub mod team;
#[cfg(test)]
mod tests;
pub mod text;
pub mod time;
pub mod token;
pub mod trusted_time;
pub mod user;

pub use change::Change;
pub use feedback::Feedback;
pub use guild::{Guild, GuildEntry, GuildFacts, InvitableGuild, ListedGuild, PersonFacts};
pub use health::{Health, Heartbeat};
pub use permissions::{Permission, PermissionSet};
pub use picture::Picture;
pub use provider_rules::ProviderRules;
pub use retention::REVOCATION_WAIT;
pub use revocation::RevocationEnd;
pub use role::Role;
pub use session::{Session, SessionId, SessionLimits};
pub use snowflake::Snowflake;
pub use stats::Stats;
pub use subscription::Subscription;
pub use team::{Roster, TeamMember};
pub use time::Time;
pub use token::{TokenHash, TokenKind};
pub use user::User;

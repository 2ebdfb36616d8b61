//! Pure rules and the things they speak of: no I/O, no async, no framework. Nothing here imports another room.

pub mod change;
pub mod feed;
pub mod feedback;
pub mod guild;
pub mod health;
pub mod host;
pub mod permissions;
pub mod picture;
pub mod revocation;
pub mod role;
pub mod session;
pub mod snowflake;
pub mod subscription;
pub mod team;
pub mod text;
pub mod time;
pub mod token;
pub mod user;

pub use change::Change;
pub use feedback::Feedback;
pub use guild::{Guild, GuildEntry, GuildFacts, ListedGuild, PersonFacts};
pub use health::{Health, Heartbeat};
pub use permissions::{Permission, PermissionSet};
pub use revocation::{REVOCATION_WAIT, RevocationEnd, RevocationStage};
pub use role::Role;
pub use session::{Session, SessionId, SessionLimits};
pub use snowflake::Snowflake;
pub use subscription::Subscription;
pub use team::{Roster, TeamMember};
pub use time::Time;
pub use token::{TokenHash, TokenKind};
pub use user::User;

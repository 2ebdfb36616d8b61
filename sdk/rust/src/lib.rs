//! Keeps a bot-companion service up to date with what a Discord bot knows.
//!
//! See the README for how to attach it. The parts, each in its own file:
//!
//! | part | decides |
//! |---|---|
//! | `marks` | which changes are waiting to be sent, how many at most, and which replace which |
//! | `snapshots` | which shards to send as a whole, and the lines of a snapshot |
//! | `sender`, `batch`, `numbering` | the numbering, one request at a time, retries, resync |
//! | `ownership` | which shards belong to another process |
//! | `heartbeat` | the report on the process and its shards |
//! | `staff`, `listing`, `budget` | who has a granting role, and whether that is completely known; how often members are listed |
//! | `callbacks` | the bot's callbacks: time limits, concurrency, last answers |
//! | `feedback`, `spool` | the feedback queue, its results, the spool on disk |
//! | `status` | log lines, counters, the status, notices |
//! | `transport`, `calls`, `outage`, `http`, `gzip` | HTTP: gzip, time limits, the envelope, outages |
//! | `source` | the interface to the bot library |
//! | `on_serenity`, `on_twilight`, `library`, `table` | the adapters: the library's events and the guilds they report |
//!
//! They share `core`: one state behind one lock, which is never held across a wait. All work is one future, which
//! [`Builder::start`] gives to tokio. Time, randomness and the transport are passed in, so that a test can replay an hour in
//! an instant.

mod batch;
mod budget;
mod builder;
mod callbacks;
mod calls;
mod clock;
mod companion;
mod configuration;
mod core;
mod feedback;
mod gzip;
mod heartbeat;
mod http;
#[cfg(any(feature = "serenity", feature = "twilight"))]
mod library;
mod limits;
mod listing;
mod marks;
mod numbering;
#[cfg(feature = "serenity")]
mod on_serenity;
#[cfg(feature = "twilight")]
mod on_twilight;
mod outage;
mod ownership;
mod sender;
mod snapshots;
mod source;
mod spool;
mod staff;
mod status;
mod subscriptions;
#[cfg(any(feature = "serenity", feature = "twilight"))]
mod table;
mod transport;

pub use builder::Builder;
pub use callbacks::{CallbackError, Grants, Permission, Subscription, TeamMember};
pub use clock::{Clock, SystemClock};
pub use companion::{BotEvent, Companion};
pub use configuration::ConfigurationError;
pub use feedback::{Delivery, Feedback, PendingDelivery, Submitter};
pub use limits::Limits;
#[cfg(feature = "serenity")]
pub use on_serenity::{SerenityCompanion, SerenityHandler};
#[cfg(feature = "twilight")]
pub use on_twilight::TwilightCompanion;
pub use source::{Guild, GuildState, ListingError, Member, Page, ShardHealth, Source};
pub use status::{Counters, Level, LogSink, Notice, State, Status, Waiting};
pub use transport::{Body, Request, Response, Transport};

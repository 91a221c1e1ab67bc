//! Records in flight, records that Kafka has already, and records that it refuses.

pub(super) mod dead_letters;
pub(super) mod dispatch;
pub(super) mod exactly_once;
pub(super) mod flight;
pub(super) mod mailbox;
pub(super) mod needs;
pub(super) mod notification_posts;
pub(super) mod repeats;
pub(super) mod tolerance;

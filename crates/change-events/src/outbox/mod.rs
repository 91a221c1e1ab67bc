//! The EventRouter transform: a row of the outbox becomes a routed event.
//!
//! ```text
//!   EventRouterOptions ─┐
//!   Converters ─────────┼─▶ EventRouter ──bind(Relation, columns)──▶ OutboxTable ──route(Tuple)──▶ RoutedRecord
//!   EventContext ───────┘   once                                     once a table    every row
//!                           │
//!                           └──messages()──▶ MessageOutbox ──route(content)──▶ RoutedRecord
//!                                            once            every logical message
//! ```
//!
//! Errors that can be found before the first row are returned by `parse` and `bind`; `route` returns only
//! errors of the row itself.

mod arrived;
mod binding;
mod encoder;
mod envelope;
mod error;
mod expand;
mod message;
mod options;
mod placement;
mod predicate;
mod raw_record;
mod record;
mod router;
mod source;
mod spans;
mod table;
mod timestamp;
mod topic;
mod topic_name;
mod unmasked;

#[cfg(test)]
mod tests;

pub use encoder::Encoder;
pub use error::RouteError;
pub use error::{BindError, TopicProblem};
pub use message::MessageError;
pub use message::{MessageOutbox, MessagePrefixes};
pub use options::EventRouterOptions;
pub use options::InvalidOperation;
pub use predicate::Condition;
pub use raw_record::{RawRecord, shown_as_json};
pub use record::RoutedRecord;
pub use router::Assumption;
pub use router::{EventContext, EventRouter};
pub use source::OutboxSource;
pub use table::{OutboxTable, RouteContext};
pub use topic_name::check_topic_name;
#[cfg(test)]
pub use unmasked::Unmasked;

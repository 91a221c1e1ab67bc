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

mod error;
mod expand;
mod message;
mod options;
mod predicate;
mod record;
mod router;
mod table;
mod topic;

#[cfg(test)]
mod tests;

pub use error::RouteError;
pub use error::{BindError, TopicProblem};
pub use message::MessageError;
pub use message::{MessageOutbox, MessagePrefixes};
pub use options::EventRouterOptions;
pub use options::InvalidOperation;
pub use predicate::Condition;
pub use record::RoutedRecord;
pub use record::encoder::Encoder;
pub use record::raw::{RawRecord, shown_as_json};
pub use router::Assumption;
pub use router::{EventContext, EventRouter};
pub use table::source::OutboxSource;
#[cfg(test)]
pub use table::unmasked::Unmasked;
pub use table::{OutboxTable, RouteContext};
pub use topic::name::check_topic_name;

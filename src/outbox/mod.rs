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
//! What can be known before the first row is refused at `parse` and `bind`; what is left for `route` to refuse is the
//! row's own.

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
mod replacement;
mod router;
mod table;
mod timestamp;
mod topic;
mod topic_name;
mod unmasked;

#[cfg(test)]
mod tests;

pub use crate::connect::OptionError;
pub use encoder::Encoder;
pub use error::{BindError, BindProblem, RouteError, TopicProblem};
pub use expand::{EmptyArrayBehavior, JsonExpansion, NullBehavior};
pub use message::{MessageError, MessageOutbox, MessagePrefixes};
pub use options::{AdditionalMissing, EventRouterOptions, InvalidOperation, MappedColumn, OPTION_NAMES};
pub use placement::{AdditionalField, Placement};
pub use predicate::Condition;
pub use raw_record::RawRecord;
pub use record::RoutedRecord;
pub use router::{Assumption, EventContext, EventRouter};
pub use table::{OutboxTable, RouteContext};
pub use topic::TopicRouting;
pub use topic_name::{IllegalTopicName, check_topic_name};
pub use unmasked::Unmasked;

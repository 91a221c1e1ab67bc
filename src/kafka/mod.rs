//! Kafka: the producer, its delivery reports and its transactions; the topics of Connect's source offsets, of
//! exactly-once's state and of the relays' positions.

mod admin;
mod admission;
mod client_config;
mod clients;
mod compacted_topic;
mod connection_failures;
mod delivery;
mod error;
mod fault;
mod log_ends;
mod offset_topic;
mod open_transactions;
mod options;
mod outlet;
mod pace;
mod partitioner;
mod position_topic;
mod producer;
mod reader;
mod rejection;
mod stable_ends;
mod state_topic;
mod taken_back;
mod time;
mod topic_probe;
mod topic_scan;
mod topic_tail;
mod transaction_fault;
mod transaction_reports;
mod transactions;
mod transport;

pub use admin::{Admin, Broker, Settings, Topic};
pub use admission::Admission;
pub use clients::TransactionSettings;
pub use delivery::{Delivered, Deliveries, REFUSED_MAX, Reports};
pub use error::Error;
pub use fault::Fault;
pub use log_ends::Doubt;
pub use offset_topic::{OffsetTopic, StoredValue};
pub use open_transactions::OpenTransactions;
pub use options::Options;
pub use outlet::Outlet;
pub use pace::Pace;
pub use partitioner::{partition_of, positive_hash};
pub use position_topic::{PositionTopic, Read, Receipt};
pub use producer::{Inlet, Producer};
#[cfg(test)]
pub(crate) use rejection::ReportPlace;
pub use rejection::{Cause, Rejection};
pub use state_topic::{StateTopic, Stored};
pub use topic_probe::{TopicAnswer, TopicProbe};
pub use topic_scan::{ScannedPartition, ScannedRecord, TopicScan};
pub use topic_tail::{Relevance, TailRecord, TopicTail};
pub use transaction_fault::TransactionFault;
pub use transport::Transport;

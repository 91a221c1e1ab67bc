#![doc = include_str!("../README.md")]

pub mod column;
pub mod converter;
pub mod debezium_version;
pub mod record;

mod decimal;
pub mod error;
pub mod event_id;
mod heartbeat;
pub mod java;
mod name;
mod name_patterns;
pub mod option;
mod schema;
pub mod source_record;
mod topic_naming;
pub mod trace;
pub mod transform;
mod value;

pub use decimal::Decimal;
pub use heartbeat::{BeatError, Heartbeat};
pub use name::NameAdjustment;
pub use name_patterns::NamePatterns;
pub use option::{OptionError, OptionReader, Refused};
pub use schema::{Field, Kind, Schema};
pub use topic_naming::TopicNaming;
pub use value::Value;

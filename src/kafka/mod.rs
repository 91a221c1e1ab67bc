//! Kafka: the producer and its delivery reports.

mod admin;
mod delivery;
mod error;
mod options;
mod pace;
mod producer;

pub use admin::{Admin, Broker, Settings, Topic};
pub use delivery::{Delivered, Deliveries, Rejection, Reports};
pub use error::Error;
pub use options::Options;
pub use pace::Pace;
pub use producer::Producer;

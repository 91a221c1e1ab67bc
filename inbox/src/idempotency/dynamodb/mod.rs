//! Records in DynamoDB: an item for each key, and conditional writes.
//!
//! This module does not depend on the AWS SDK: the service wraps its own client in a [`Table`], which has a single call.
//!
//! DynamoDB does not return its time, so the clocks of the services are compared with each other. Each lease is stored with an extra 2 s
//! for the difference between these clocks.

mod item;
mod store;
mod table;

pub use store::DynamoDbStore;
pub use table::{Attribute, Item, Table, Update, Updated};

//! Records in DynamoDB: an item for each key, and conditional writes.
//!
//! Nothing of AWS is built for it: the service has its own client, and gives it as a [`Table`], which has one call.
//!
//! DynamoDB does not tell the time, so the clocks of the services are compared with each other. Leases are written longer by
//! what these may differ.

mod item;
mod store;
mod table;

pub use store::DynamoDbStore;
pub use table::{Attribute, Item, Table, Update, Updated};

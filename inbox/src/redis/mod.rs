//! Redis: one server, the master that Sentinel names, or a cluster.
//!
//! A script is called by its hash, in one round trip; its text is sent only to a server that does not know it yet. Each script has a single
//! key, so a cluster has all keys of a script in one slot.

mod error;
mod script;
mod servers;

pub use error::Error;
pub use servers::Servers;

pub(crate) use script::Script;

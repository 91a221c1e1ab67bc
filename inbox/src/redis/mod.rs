//! Redis: one server, the master that Sentinel names, or a cluster.
//!
//! A script is one round trip, by its hash; a server that does not know it yet is given its text. All keys of a script are
//! one key here, so a cluster has them in one slot.

mod error;
mod script;
mod servers;

pub use error::Error;
pub use servers::Servers;

pub(crate) use script::Script;

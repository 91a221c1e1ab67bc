//! Course of a run: servers, writers, operations, faults, and the relay's operator.

mod configuration;
mod credentials;
mod endings;
mod faults;
pub(crate) mod gap;
pub(crate) mod load;
mod migration;
mod operations;
pub(crate) mod outcome;
mod poller;
pub(crate) mod service;
mod settle;
pub(crate) mod setup;
mod slot;
pub(crate) mod trial;
pub(crate) mod world;

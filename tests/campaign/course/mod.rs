//! Course of a run: servers, writers, operations, faults, and the relay's operator.

mod configuration;
mod endings;
mod faults;
pub(crate) mod load;
mod operations;
pub(crate) mod outcome;
pub(crate) mod service;
mod settle;
pub(crate) mod setup;
pub(crate) mod trial;
pub(crate) mod world;

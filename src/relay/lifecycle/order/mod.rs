//! The order of a relay's life, without I/O: each state is a type that accepts what was observed and returns the next one. Two
//! drivers do what a state asks for: the supervisor with connections, the simulation with models of both servers.
//!
//! - [`judging`]: the questions about the slot, in their order, up to the verdict.

mod judging;

pub(in crate::relay) use judging::{Found, Grounds, Judged, Judgement, Judging};

//! The order of a relay's life, without I/O: each state is a type that accepts what was observed and returns the next one. Two
//! drivers execute what a state requires: the supervisor with connections, the simulation with models of both servers.
//!
//! - [`between`]: open, pause or end; the reaction to a failure.
//! - [`start`]: from the server to the stream.
//! - [`judging`]: the questions about the slot, in their order, up to the verdict.
//! - [`preparation`]: what a start does with the slot.
//! - [`takeover`]: of Kafka transactions, between the stream and its first row.
//! - [`ending`]: from the stream to the memory of the session.

mod between;
mod ending;
mod judging;
mod preparation;
mod start;
mod takeover;

pub(crate) use between::is_our_own;
pub(in crate::relay) use between::{
    Between, Circumstances, Inherited, Streamed, begin_feed, react, react_to_holder,
};
pub(in crate::relay) use ending::{AfterStream, Beginning, Ended, Settling};
#[cfg(test)]
pub(in crate::relay) use judging::PositionQuestion;
pub(in crate::relay) use judging::{DueSnapshot, Found, Grounds, Judged, Judgement, Judging};
pub(in crate::relay) use preparation::Preparation;
pub(crate) use preparation::StartStep;
pub(in crate::relay) use start::{
    Begun, CatchUp, CaughtUp, NeedsSlot, NeedsStream, NeedsTables, Started, Tables,
};
#[cfg(test)]
pub(in crate::relay) use takeover::NeedsState;
pub(in crate::relay) use takeover::{NeedsFence, NeedsVisible};

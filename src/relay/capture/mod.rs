//! Which tables are captured, and what becomes of the rows of all others.
//!
//! A table is captured by its object id, and so are its partitions: once captured, it stays so under any name and with
//! any columns, and the position that is kept takes that to the next process. What the catalog says today only adds
//! tables, because rows may be older or newer than it. A relation whose rows are not sent has a reason with a name; one that is captured and cannot be sent
//! ends the relay.

mod error;
mod identity;
mod judge;
#[cfg(test)]
mod judge_tests;
mod not_sent;
mod selection;
mod versions;

pub(crate) use error::CaptureError;
pub(super) use error::Since;
pub(crate) use error::not_in_the_wal;
pub(super) use identity::{CapturedTable, CapturedTables};
pub(super) use judge::{NotCaptured, Rules, Today, Verdict};
pub(crate) use judge::{in_the_publication, near_miss};
#[cfg(test)]
pub(super) use judge_tests::route;
pub(super) use not_sent::{NotSent, PassedRows, renamed};
pub(crate) use selection::left_out;
pub(super) use versions::{Finding, Look, Namesake, Watched, judge, unpublished};

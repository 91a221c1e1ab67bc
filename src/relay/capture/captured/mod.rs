//! Captured tables, and the reasons for which rows of other tables are not sent.
//!
//! A table is captured by its object id, and so are its partitions: once captured, it stays so under any name
//! and with any columns, and the stored position passes that to the next process. The present catalog only
//! adds tables, because rows may be older or newer than it. A relation whose rows are not sent has a reason
//! with a name; one that is captured and cannot be sent ends the relay.

mod error;
mod identity;
mod judge;
#[cfg(test)]
mod judge_tests;
mod not_sent;
mod selection;
mod suspicion;
mod versions;

pub(crate) use error::CaptureError;
pub(in crate::relay) use error::PresentTable;
pub(crate) use error::not_in_the_wal;
pub(in crate::relay) use identity::{CapturedTable, CapturedTables, Noted};
pub(in crate::relay) use judge::{NotCaptured, Rules, Today, Verdict};
pub(crate) use judge::{in_the_publication, near_miss};
#[cfg(test)]
pub(in crate::relay) use judge_tests::route;
pub(in crate::relay) use not_sent::{NotSent, PassedRows, renamed};
pub(crate) use selection::excluded_by_predicate;
pub(in crate::relay) use suspicion::{Suspicion, SuspicionCause};
pub(in crate::relay) use versions::{Finding, Look, Namesake, Watched, judge, unpublished};

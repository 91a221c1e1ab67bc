//! The relay's position, which is in Kafka before it is confirmed to PostgreSQL: its form, the times at which
//! it is written, and what a start concludes from it. A slot beyond it was moved by another client.

mod pacing;
mod record;
mod unfinished;
mod verdict;

pub(in crate::relay) use pacing::{DuePosition, Pacing};
pub(crate) use record::Phase;
pub(crate) use record::RecordError;
pub(in crate::relay) use record::{Position, Stopped, acceptable, is_of_dropped};
pub(in crate::relay) use unfinished::{SentPart, SentTable, Unfinished};
pub(in crate::relay) use verdict::{Facts, Verdict, WalHistory, judge};

//! The relay's position, which is in Kafka before it is confirmed to PostgreSQL: its form, when it is written, and what a
//! start concludes from it. A slot that stands beyond it was moved by somebody else.

mod pacing;
mod record;
mod unfinished;
mod verdict;

pub(super) use pacing::{Keep, Pacing};
pub(crate) use record::Phase;
pub(crate) use record::RecordError;
pub(super) use record::{Position, Stopped, acceptable, is_of_dropped};
pub(super) use unfinished::{SentPart, SentTable, Unfinished};
pub(super) use verdict::{Facts, Verdict, judge, other_history};

//! The next start's action on the slot, which the commands report in advance.

use std::sync::Arc;

use super::order::{Judgement, Judging, StartStep};
use super::slot_judge::{Asker, SlotJudge};
use crate::error::{Class, Diagnose as _, Exit, chain, in_commands};
use crate::postgres::{ServerFacts, SlotFacts, Sql};
use crate::relay::capture::captured::CapturedTables;
use crate::relay::capture::preflight::Site;
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::Comparison;
use crate::relay::progress::offsets::Offsets;

/// The next start, for a command that reports it.
#[derive(Debug)]
pub(crate) struct NextStart {
    slot: String,
    pub(crate) step: StartStep,
    /// The error that it ends with, or the loss that it recovers from.
    error: Option<Error>,
}

impl NextStart {
    /// Asks PostgreSQL and Kafka as the start does, and changes nothing.
    ///
    /// # Errors
    /// When one of them does not answer: it is not known then.
    pub(crate) async fn find(parts: &Arc<RelayParts>, sql: &Sql) -> Result<Self, Error> {
        let facts = sql.slot(&parts.postgres.slot.name).await?;
        Self::with_slot(parts, sql, facts.as_ref()).await
    }

    /// Predicts the start as if the slot were dropped.
    pub(crate) async fn without_slot(parts: &Arc<RelayParts>, sql: &Sql) -> Result<Self, Error> {
        Self::with_slot(parts, sql, None).await
    }

    async fn with_slot(parts: &Arc<RelayParts>, sql: &Sql, facts: Option<&SlotFacts>) -> Result<Self, Error> {
        let judged = judge(parts, sql, facts).await;
        let options = &parts.postgres;
        let step = StartStep::of(options.snapshot.mode, options.recovers(), judged.as_ref().copied());
        let error = judged.err();
        match error {
            Some(error) if step == StartStep::Refuse && error.class() == Class::Transient => Err(error),
            error => Ok(Self { slot: parts.postgres.slot.name.to_string(), step, error }),
        }
    }

    /// Returns the error that the start ends with.
    pub(crate) fn into_error(self) -> Option<Error> {
        self.error.filter(|_| self.step == StartStep::Refuse)
    }

    /// Describes the start in a sentence without a full stop.
    pub(crate) fn summary(&self) -> String {
        let Self { slot, step, error } = self;
        let what = match step {
            StartStep::Continue => format!("continues from slot {slot}"),
            StartStep::SnapshotBeside | StartStep::SnapshotAgain => {
                format!("sends the rows that are in the tables, and continues from slot {slot}")
            }
            StartStep::Create => format!(
                "creates slot {slot} and sends what is written from then on, not the rows that are in the tables \
                 (snapshot.mode=no_data)"
            ),
            StartStep::CreateWithSnapshot => {
                format!("creates slot {slot} and sends the rows that are in the tables")
            }
            StartStep::Recover => {
                format!(
                    "creates slot {slot} again and sends the rows that are in the tables, also those that were sent"
                )
            }
            StartStep::SnapshotOnly => {
                "sends the rows that are in the tables and ends (snapshot.mode=initial_only)".to_owned()
            }
            StartStep::Refuse => {
                let exit = error.as_ref().map_or(Exit::Failed, Error::exit);
                let because = error.as_ref().map(|error| chain(error)).unwrap_or_default();
                format!("ends with exit code {}: {because}", exit.code())
            }
        };
        format!("the next outboxd run {what}")
    }

    /// Returns the fix for a start that would be refused, or that would leave rows out.
    pub(crate) fn fix(&self) -> Option<String> {
        match self.step {
            StartStep::Refuse => self.error.as_ref().and_then(Error::fix),
            StartStep::Create => Some(in_commands(
                "to send the rows that are in the tables: outboxd run -c FILE -X snapshot.mode=initial",
            )),
            _ => None,
        }
    }
}

/// Judges the slot from outside of a relay: what Kafka and PostgreSQL have stored is all that a first session knows.
async fn judge(parts: &Arc<RelayParts>, sql: &Sql, facts: Option<&SlotFacts>) -> Result<Judgement, Error> {
    let (offsets, captured) = (Offsets::new(parts)?, CapturedTables::default());
    let judge = SlotJudge {
        parts,
        sql,
        offsets: offsets.as_ref(),
        asker: Asker::Command,
        comparison: Comparison::of_parts(parts, &captured),
    };
    let (system_id, timeline) = sql.history().await?;
    let ServerFacts { database, in_recovery, .. } = sql.server().await?;
    let site = Site { origin: Origin { system_id, timeline }, database, in_recovery };
    // The next start comes when no client reads it.
    let idle = facts.map(|facts| SlotFacts { active_pid: None, ..facts.clone() });
    let judged = judge.judge(Judging::of, idle.as_ref(), &site).await?;
    Ok(judged.judgement(&judge.comparison))
}

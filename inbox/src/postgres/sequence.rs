//! Repeats and gaps that are recognized by an event's number.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{COMMIT, DriverError, Error};
use super::parking::header_columns;
use super::session::{Parameter, Query, Row};
use super::statements::{
    ADVANCE, ALIVE_NUMBER, DEAD_NUMBER, DEAD_NUMBERS, ENTER_ONLY, Mark, NEXT_NUMBERS, PARK_NUMBER,
    PASS_NUMBER, ROLL_BACK, TAKE_BACK,
};
use super::tenancy::Tenancy;
use crate::core::sequence::{Advance, Known, Plan};
use crate::event::Event;

/// Result of writing the numbers of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbered {
    Written,
    /// The numbers are written, and parked events have waited for them.
    Closed,
    /// Another consumer has advanced the key, whose events are in two partitions.
    Raced,
    /// An event waits for a number, and the limit of parked events is reached.
    Full,
}

/// Number of an event that became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadNumber {
    pub(crate) number: i64,
    /// True unless the number is before the first number of its key.
    pub(crate) was_waited_for: bool,
}

impl Connection {
    /// Begins a transaction, and reads the known numbers of the keys. Returns `None` if another consumer has the partition.
    pub(crate) async fn enter_numbered(
        &self,
        tenancy: &Tenancy,
        mark: Mark,
        events: &[(&[u8], i64)],
    ) -> Result<Option<Known>, Error> {
        let doing = "read the numbers of keys";
        let begin = tenancy.begin(mark);
        let keys: Vec<&[u8]> = events.iter().map(|(key, _)| *key).collect();
        let numbers: Vec<i64> = events.iter().map(|(_, number)| *number).collect();
        let consumer = &*tenancy.consumer;
        let held: [Parameter<'_>; 2] = [(&tenancy.partition, Type::INT4), (&tenancy.epoch, Type::INT8)];
        let topic = &*tenancy.topic;
        let of: [Parameter<'_>; 3] =
            [(&consumer, Type::TEXT), (&keys, Type::BYTEA_ARRAY), (&topic, Type::TEXT)];
        let with_numbers: [Parameter<'_>; 4] = [
            (&consumer, Type::TEXT),
            (&keys, Type::BYTEA_ARRAY),
            (&numbers, Type::INT8_ARRAY),
            (&topic, Type::TEXT),
        ];
        let queries: [Query<'_>; 3] =
            [(ENTER_ONLY, &held), (NEXT_NUMBERS, &of), (DEAD_NUMBERS, &with_numbers)];
        let answers = self.begin_and_queries(begin, queries).await;
        let [held, known, dead] = answers.map_err(Error::of(doing))?;
        let is_held = held.first().map_or(Ok(false), |row| row.get(0));
        if !is_held.map_err(Error::of(doing))? {
            self.batch(ROLL_BACK).await.map_err(Error::of("roll back"))?;
            return Ok(None);
        }
        tenancy.set_marked(mark);
        let pair = |row: &Row| Ok((row.get(0)?, row.get(1)?));
        let next = known.iter().map(pair).collect::<Result<_, DriverError>>().map_err(Error::of(doing))?;
        let dead = dead.iter().map(pair).collect::<Result<_, DriverError>>().map_err(Error::of(doing))?;
        let mut first = BTreeMap::new();
        for row in &known {
            let of_key: (Vec<u8>, Option<i64>) =
                (row.get(0).map_err(Error::of(doing))?, row.get(2).map_err(Error::of(doing))?);
            first.extend(of_key.1.map(|number| (of_key.0, number)));
        }
        Ok(Some(Known { next, first, dead }))
    }

    /// Writes the numbers as planned, after the handlers. `room` is the maximum number of parked events.
    pub(crate) async fn write_numbers(
        &self,
        tenancy: &Tenancy,
        plan: &Plan,
        events: &[(&Arc<Event>, i64)],
        room: usize,
    ) -> Result<Numbered, Error> {
        // In this order, and with tokio-postgres in one round trip.
        let (taken_back, numbered) =
            join(self.batch(TAKE_BACK), self.write_plan(tenancy, plan, events, room)).await;
        taken_back.map_err(Error::of(COMMIT))?;
        numbered
    }

    async fn write_plan(
        &self,
        tenancy: &Tenancy,
        plan: &Plan,
        events: &[(&Arc<Event>, i64)],
        room: usize,
    ) -> Result<Numbered, Error> {
        let doing = "write the numbers of keys";
        let (consumer, topic) = (&*tenancy.consumer, &*tenancy.topic);
        let mut numbered = Numbered::Written;
        for (key, Advance { before, next, first }) in &plan.advance {
            let parameters: [Parameter<'_>; 7] = [
                (&consumer, Type::TEXT),
                (key, Type::BYTEA),
                (next, Type::INT8),
                (before, Type::INT8),
                (&tenancy.partition, Type::INT4),
                (first, Type::INT8),
                (&topic, Type::TEXT),
            ];
            let rows = self.query(ADVANCE, &parameters).await.map_err(Error::of(doing))?;
            let Some(row) = rows.first() else { return Ok(Numbered::Raced) };
            if row.get(0).map_err(Error::of(doing))? {
                numbered = Numbered::Closed;
            }
        }
        for (key, number) in &plan.again {
            let parameters: [Parameter<'_>; 4] =
                [(&consumer, Type::TEXT), (key, Type::BYTEA), (number, Type::INT8), (&topic, Type::TEXT)];
            self.query(ALIVE_NUMBER, &parameters).await.map_err(Error::of(doing))?;
        }
        for (index, expected) in &plan.gaps {
            let Some((event, number)) = events.get(*index) else { continue };
            if !self.park_number(tenancy, event, *number, *expected, room).await? {
                return Ok(Numbered::Full);
            }
        }
        Ok(numbered)
    }

    /// Parks an event until the numbers before its own have arrived. Returns `false` if the limit of parked events is reached.
    async fn park_number(
        &self,
        tenancy: &Tenancy,
        event: &Event,
        number: i64,
        expected: i64,
        room: usize,
    ) -> Result<bool, Error> {
        let doing = "park an event that comes too early";
        let (names, values) = header_columns(event);
        let room = i64::try_from(room).unwrap_or(i64::MAX);
        let parameters: [Parameter<'_>; 9] = [
            (&tenancy.partition, Type::INT4),
            (&event.offset, Type::INT8),
            (&event.timestamp_ms, Type::INT8),
            (&event.key, Type::BYTEA),
            (&event.value, Type::BYTEA),
            (&names, Type::BYTEA_ARRAY),
            (&values, Type::BYTEA_ARRAY),
            (&number, Type::INT8),
            (&room, Type::INT8),
        ];
        let row = self.query(PARK_NUMBER, &parameters).await.map_err(Error::of(doing))?.pop();
        let Some(row) = row else { return Ok(false) };
        let others: i64 = row.get(0).map_err(Error::of(doing))?;
        if others == 0 {
            tracing::error!(
                topic = &*event.topic,
                partition = event.partition,
                offset = event.offset,
                number,
                expected,
                "an event of this key is missing: the later ones wait in the table until it has come"
            );
        }
        Ok(true)
    }

    /// Stores that a number has become a dead letter, so that later numbers do not wait for it. A number before the key's first number was
    /// never waited for.
    pub(super) async fn pass_number(
        &self,
        tenancy: &Tenancy,
        key: &[u8],
        DeadNumber { number, was_waited_for }: DeadNumber,
    ) -> Result<(), Error> {
        let doing = "pass over the number of a dead letter";
        let (consumer, topic) = (&*tenancy.consumer, &*tenancy.topic);
        let parameters: [Parameter<'_>; 4] =
            [(&consumer, Type::TEXT), (&key, Type::BYTEA), (&number, Type::INT8), (&topic, Type::TEXT)];
        self.query(DEAD_NUMBER, &parameters).await.map_err(Error::of(doing))?;
        if was_waited_for {
            self.query(PASS_NUMBER, &parameters).await.map_err(Error::of(doing))?;
        }
        Ok(())
    }
}

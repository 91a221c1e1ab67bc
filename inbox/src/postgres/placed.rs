//! Repeats that are recognized by an event's position.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::Parameter;
use super::statements::{ENTER_BY_POSITION, ENTER_FRESH, Mark, ROLL_BACK};
use super::tenancy::Tenancy;
use super::transaction::Entered;

/// Events for one transaction, grouped by their positions.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) source: &'a str,
    /// Smallest and greatest place of all events.
    pub(crate) places: (&'a str, &'a str),
    /// Ids of the events that are certainly new.
    pub(crate) fresh: Vec<&'a str>,
    /// Ids of the events that have to be looked up; their smallest and greatest place are in `doubtful_places`.
    pub(crate) doubtful: Vec<&'a str>,
    pub(crate) doubtful_places: (&'a str, &'a str),
}

impl Connection {
    /// Begins a transaction and remembers these events in it, in one round trip.
    pub(crate) async fn enter_by_position(
        &self,
        tenancy: &Tenancy,
        mark: Mark,
        topic: &Arc<str>,
        placed: &Placed<'_>,
    ) -> Result<Entered, Error> {
        let (begin, consumer, doing) = (tenancy.begin(mark), &*tenancy.consumer, "remember the events");
        let partition: Parameter<'_> = (&tenancy.partition, Type::INT4);
        let epoch: Parameter<'_> = (&tenancy.epoch, Type::INT8);
        let fresh: Parameter<'_> = (&placed.fresh, Type::TEXT_ARRAY);
        let source: Parameter<'_> = (&placed.source, Type::TEXT);
        let (first, last) = ((&placed.places.0 as _, Type::TEXT), (&placed.places.1 as _, Type::TEXT));
        let answers = if placed.doubtful.is_empty() {
            let parameters = [partition, epoch, fresh, source, first, last];
            self.begin_and_queries(begin, [(ENTER_FRESH, &parameters)]).await
        } else {
            let parameters = [
                partition,
                epoch,
                (&consumer, Type::TEXT),
                fresh,
                (&placed.doubtful, Type::TEXT_ARRAY),
                source,
                first,
                last,
                (&placed.doubtful_places.0, Type::TEXT),
                (&placed.doubtful_places.1, Type::TEXT),
                (&&**topic, Type::TEXT),
            ];
            self.begin_and_queries(begin, [(ENTER_BY_POSITION, &parameters)]).await
        };
        let [mut rows] = answers.map_err(Error::of(doing))?;
        let row = rows.pop().ok_or(DriverError::NoRow).map_err(Error::of(doing))?;
        if !row.get::<bool>(0).map_err(Error::of(doing))? {
            self.batch(ROLL_BACK).await.map_err(Error::of("roll back"))?;
            return Ok(Entered::Fenced);
        }
        tenancy.set_marked(mark);
        let new: Vec<String> = if placed.doubtful.is_empty() {
            placed.fresh.iter().map(|id| (*id).to_owned()).collect()
        } else {
            row.get(1).map_err(Error::of(doing))?
        };
        Ok(Entered::New(new.into_iter().map(|id| (Arc::clone(topic), Arc::from(id))).collect()))
    }
}

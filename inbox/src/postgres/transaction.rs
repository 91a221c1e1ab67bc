use std::collections::HashSet;

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::error::{DriverError, Error};
use super::session::Parameter;
use super::statements::{self, Mark};
use super::tenancy::Tenancy;

/// How entering a transaction went.
#[derive(Debug)]
pub(crate) enum Entered {
    /// In it. The ids that were not known.
    New(HashSet<String>),
    /// Another consumer has the partition. There is no transaction.
    Fenced,
}

impl Connection {
    /// Writes the mark down, begins a transaction and remembers these ids in it, in one round trip. The ids are sorted, so
    /// that two batches cannot wait for each other.
    pub(crate) async fn enter(&self, tenancy: &Tenancy, mark: Mark, ids: &[&str]) -> Result<Entered, Error> {
        let begin = tenancy.begin(mark);
        let (consumer, doing) = (&*tenancy.consumer, "remember the events");
        let parameters: [Parameter<'_>; 4] = [
            (&tenancy.partition, Type::INT4),
            (&tenancy.epoch, Type::INT8),
            (&consumer, Type::TEXT),
            (&ids, Type::TEXT_ARRAY),
        ];
        let answers = self.begin_and_queries(begin, [(statements::ENTER, &parameters)]).await;
        let [mut rows] = answers.map_err(Error::of(doing))?;
        let row = rows.pop().ok_or(DriverError::NoRow).map_err(Error::of(doing))?;
        if row.get(0).map_err(Error::of(doing))? {
            tenancy.set_marked(mark);
            let new: Vec<String> = row.get(1).map_err(Error::of(doing))?;
            return Ok(Entered::New(new.into_iter().collect()));
        }
        self.batch("ROLLBACK").await.map_err(Error::of("roll back"))?;
        Ok(Entered::Fenced)
    }

    /// Commits it.
    pub(crate) async fn commit(&self, tenancy: &Tenancy, mark: Mark) -> Result<(), Error> {
        let sql = statements::commit(tenancy.partition, mark);
        self.batch(&sql).await.map_err(Error::of("commit"))
    }

    /// Forgets how often an event was begun: it has been given up.
    pub(crate) async fn forget_begun(&self, tenancy: &Tenancy, offset: i64) -> Result<(), Error> {
        let sql = statements::end(tenancy.partition, offset);
        self.batch(&sql).await.map_err(Error::of("forget that an event was begun"))
    }

    /// Undoes it.
    pub(crate) async fn roll_back(&self, tenancy: &Tenancy, mark: Mark) -> Result<(), Error> {
        let sql = statements::roll_back(tenancy.partition, mark);
        self.batch(&sql).await.map_err(Error::of("roll back"))
    }
}

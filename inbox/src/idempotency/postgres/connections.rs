//! Connections of the store in PostgreSQL.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;

use super::statements;
use crate::postgres::{Connector, Error, Session};

/// Fixed number of connections, opened on first use and reopened after a loss. Statements are distributed round robin, many at a time on
/// each connection.
#[derive(Debug)]
pub(super) struct Connections {
    connector: Connector,
    open: Vec<Mutex<Option<Arc<Prepared>>>>,
    next: AtomicUsize,
}

/// Connection with its prepared statements.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session: Session,
    pub(super) begin: tokio_postgres::Statement,
    pub(super) find: tokio_postgres::Statement,
    pub(super) extend: tokio_postgres::Statement,
    pub(super) held: tokio_postgres::Statement,
    pub(super) finish: tokio_postgres::Statement,
}

impl Connections {
    pub(super) fn new(connector: Connector, count: NonZeroUsize) -> Self {
        let open = (0..count.get()).map(|_| Mutex::new(None)).collect();
        Self { connector, open, next: AtomicUsize::new(0) }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) async fn get(&self) -> Result<Arc<Prepared>, Error> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.open.len();
        let Some(slot) = self.open.get(turn) else { return Ok(Arc::new(self.prepare().await?)) };
        let mut slot = slot.lock().await;
        if let Some(open) = slot.as_ref().filter(|open| !open.session.client().is_closed()) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(self.prepare().await?);
        *slot = Some(Arc::clone(&open));
        Ok(open)
    }

    async fn prepare(&self) -> Result<Prepared, Error> {
        let session = self.connector.open().await?;
        let client = session.client();
        let (begin, find, extend, held, finish) = tokio::try_join!(
            client.prepare(statements::BEGIN),
            client.prepare(statements::FIND),
            client.prepare(statements::EXTEND),
            client.prepare(statements::HELD),
            client.prepare(statements::FINISH),
        )
        .map_err(Error::of("read the table of the records"))?;
        Ok(Prepared { session, begin, find, extend, held, finish })
    }
}

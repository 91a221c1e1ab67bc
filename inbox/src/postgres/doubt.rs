//! Transactions whose connection has broken. Each may be open, or in the middle of its commit, until the server notices.

use tokio::sync::Mutex;

use super::connection::Connection;
use super::error::Error;
use super::statements::CONNECTION_LOCK_CLASS;
use super::tenancy::{HOLDERS_END_WITHIN, end_holders};

/// Numbers of the consumer's connections that have broken.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    numbers: Mutex<Vec<i32>>,
}

impl Doubts {
    /// Adds a broken connection, whose last transaction may be committed or not.
    pub(crate) async fn add(&self, broken: &Connection) {
        self.numbers.lock().await.push(broken.number);
    }

    /// Ends the transactions of all these connections, so that their commits are visible and no further one follows. A caller that begins a
    /// transaction waits for that.
    pub(crate) async fn end(&self, connection: &Connection) -> Result<(), Error> {
        let mut numbers = self.numbers.lock().await;
        while let Some(number) = numbers.last().copied() {
            connection.end_transaction(number).await?;
            numbers.pop();
        }
        Ok(())
    }
}

impl Connection {
    /// Ends the transaction of another connection, and waits until it has ended.
    async fn end_transaction(&self, number: i32) -> Result<(), Error> {
        end_holders(self, CONNECTION_LOCK_CLASS, number).await?;
        let wait = format!(
            "BEGIN; SET LOCAL lock_timeout = '{HOLDERS_END_WITHIN}'; \
             SELECT pg_advisory_xact_lock({CONNECTION_LOCK_CLASS}, {number}); COMMIT"
        );
        let ended = self.batch(&wait).await;
        ended.map_err(Error::of("wait until a transaction has ended whose connection has broken"))
    }
}

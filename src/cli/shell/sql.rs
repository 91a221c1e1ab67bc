//! Sessions of commands.

use crate::postgres::{Error, ServerOptions, Sql, TlsSetup};

/// Opens a session of a command's own. The user's `database.initial.statements` are for `run`.
pub(in crate::cli) async fn open(server: &ServerOptions, application: &str) -> Result<Sql, Error> {
    let server = ServerOptions { initial_statements: Vec::new(), ..server.clone() };
    Sql::open(&server, &TlsSetup::new(&server)?, application).await
}

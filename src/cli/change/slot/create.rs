//! `outboxd slot create`.

use serde_json::json;

use super::Target;
use super::args::TargetArgs;
use super::error::SlotError;
use crate::cli::shell::waiting::reporting_waits;
use crate::cli::{print, print_message};
use crate::error::Exit;
use crate::postgres::Error;

const CREATE: &str = "select lsn::text from pg_create_logical_replication_slot($1, 'pgoutput')";
const CREATE_FAILOVER: &str =
    "select lsn::text from pg_create_logical_replication_slot($1, 'pgoutput', failover => true)";

/// Runs `outboxd slot create`.
pub(super) async fn create(args: &TargetArgs) -> Result<Exit, SlotError> {
    const DOING: &str = "making the replication slot";
    let Target { options, sql, name } = Target::open(args).await?;
    if sql.slot_named(&name).await?.is_some() {
        return Err(SlotError::Exists(name));
    }
    let publication = &options.publication.name;
    if sql.publication(publication).await?.is_none() {
        let (publication, database) = (publication.clone(), options.server.database.clone());
        let publish = options.publication.needed.publish().to_owned();
        return Err(SlotError::NoPublication { publication, database, publish });
    }
    options.slot.check_failover(&sql.server().await?)?;
    let text = if options.slot.failover { CREATE_FAILOVER } else { CREATE };
    let rows = reporting_waits(&sql, &options.server, DOING, sql.query(DOING, text, &[&name])).await?;
    let row = rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
    let at: String = row.try_get(0).map_err(|error| Error::sql(DOING, error))?;
    if args.json {
        print(&format!("{}\n", json!({ "slot": name, "at": at })));
    } else {
        print(&format!("made {name} at {at}\n"));
    }
    print_message(&format!(
        "  WAL is retained from now on until it is read; undo: outboxd slot drop --slot {name}\n  if outboxd has had \
         a slot of this name before, its next start names the value of outboxd.position.accept that it needs\n  \
         if not, its first start sends the rows that are in the tables; -X snapshot.mode=no_data sends none of them"
    ));
    Ok(Exit::Ok)
}

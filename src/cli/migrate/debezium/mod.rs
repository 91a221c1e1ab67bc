//! Off Debezium in Kafka Connect, and back: what docs/migrate/from-debezium.md says by hand. outboxd goes on from Debezium's slot, behind the
//! last event that its stored offset knows; so no slot is made or moved here.

mod connector;

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use connector::Connector;

use super::args::{FinishArgs, TargetArgs};
use super::error::MigrateError;
use super::taken::Form;
use crate::cli::ask::{Answer, confirmed};
use crate::cli::assemble::assemble;
use crate::cli::sql::open;
use crate::cli::status::Direct;
use crate::cli::{print, say};
use crate::error::Exit;
use crate::postgres::{SlotFacts, SlotName, Sql};

/// How our sessions are named in `pg_stat_activity`.
const APPLICATION: &str = "outboxd migrate";

/// How long a connector may take to stop: it flushes its offsets.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(200);

const STOPPED: &str = "STOPPED";

/// The connector, and the slot that it reads.
struct Site {
    connector: Connector,
    /// As Connect says it; none when it is gone.
    state: Option<String>,
    sql: Sql,
    name: SlotName,
    slot: Option<SlotFacts>,
    keeps_offset: bool,
}

impl Site {
    async fn look(args: &TargetArgs, connector: &str) -> Result<Self, MigrateError> {
        let connector = Connector::parse(connector)?;
        let parts = assemble(&args.config)?.parts;
        let sql = open(&parts.postgres.server, APPLICATION).await?;
        let name = parts.postgres.slot.name.clone();
        let (slot, state) = (sql.slot(&name).await?, connector.state().await?);
        let keeps_offset = parts.relay.offsets.is_some();
        Ok(Self { connector, state, sql, name, slot, keeps_offset })
    }

    /// Whether outboxd can go on from where Debezium stops.
    fn check(&self) -> Result<(), MigrateError> {
        let slot = self.slot.as_ref().ok_or_else(|| MigrateError::NoSuchSlot(self.name.to_string()))?;
        if slot.plugin.as_deref() != Some("pgoutput") {
            return Err(MigrateError::OtherSlot(self.name.to_string()));
        }
        if let Some(because) = slot.invalidation() {
            return Err(MigrateError::SlotLost { slot: self.name.to_string(), because: Some(because) });
        }
        if self.keeps_offset { Ok(()) } else { Err(MigrateError::NoOffsets) }
    }

    fn existing(&self) -> Result<&str, MigrateError> {
        self.state.as_deref().ok_or_else(|| MigrateError::NoConnector(self.connector.to_string()))
    }

    /// Whether outboxd has the slot.
    fn is_ours(&self) -> Option<i32> {
        let slot = self.slot.as_ref()?;
        let ours = slot.application.as_deref().is_some_and(|name| name.starts_with("outboxd"));
        slot.active_pid.filter(|_| ours)
    }

    fn next(&self) -> &'static str {
        match (self.state.as_deref(), self.is_ours()) {
            (None, _) => "nothing is left to do",
            (Some(STOPPED), Some(_)) => {
                "next: outboxd migrate finish; back: stop outboxd, then outboxd migrate rollback"
            }
            (Some(STOPPED), None) => "next: outboxd run; back: outboxd migrate rollback",
            (Some(_), _) => "next: outboxd migrate start",
        }
    }
}

/// `plan` and `status`.
pub(super) async fn look(
    args: &TargetArgs,
    connector: &str,
    form: Form,
    plans: bool,
) -> Result<Exit, MigrateError> {
    let site = Site::look(args, connector).await?;
    if plans {
        site.existing()?;
        site.check()?;
    }
    let (state, name) = (site.state.as_deref().unwrap_or("gone"), site.connector.name());
    let direct = site.slot.as_ref().map(|slot| Direct::of(site.name.to_string(), slot, None));
    if form == Form::Json {
        let object = json!({ "connector": name, "state": site.state, "slot": direct, "next": site.next() });
        print(&format!("{object}\n"));
        return Ok(Exit::Ok);
    }
    let reader = direct.and_then(|slot| slot.holder).unwrap_or_else(|| "nobody".to_owned());
    let steps = format!(
        "  stop the connector, and wait until nobody reads the slot\n    PUT {url}/stop\n    undo: PUT {url}/resume\n",
        url = site.connector
    );
    print(&format!(
        "  connector {name} {state}\n  slot      {}, read by {}\n{}✓ {}\n",
        site.name,
        crate::cli::text::clean(&reader),
        if plans { steps.as_str() } else { "" },
        site.next()
    ));
    Ok(Exit::Ok)
}

pub(super) async fn start(args: &TargetArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(args, connector).await?;
    site.check()?;
    if site.existing()? != STOPPED {
        site.connector.stop().await?;
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    loop {
        let state = site.connector.state().await?;
        let reader = site.sql.slot(&site.name).await?.and_then(|slot| slot.active_pid);
        if state.as_deref() == Some(STOPPED) && reader.is_none() {
            break;
        }
        if Instant::now() >= deadline {
            let connector = site.connector.name().to_owned();
            return Err(MigrateError::NotStopped { connector, seconds: STOP_TIMEOUT.as_secs() });
        }
        sleep(INTERVAL).await;
    }
    print(&format!("connector {} is stopped, and nobody reads slot {}\n", site.connector.name(), site.name));
    say(&format!(
        "  now: outboxd run -c FILE\n  undo: outboxd migrate rollback -c FILE --from-connector {}",
        site.connector
    ));
    Ok(Exit::Ok)
}

pub(super) async fn rollback(args: &TargetArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(args, connector).await?;
    site.existing()?;
    if let Some(pid) = site.is_ours() {
        return Err(MigrateError::Running { slot: site.name.to_string(), pid });
    }
    site.connector.resume().await?;
    print(&format!("connector {} goes on\n", site.connector.name()));
    say(
        "  if outboxd has not ended with exit code 0, start and stop it once more: its offset is old otherwise",
    );
    Ok(Exit::Ok)
}

pub(super) async fn finish(args: &FinishArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, connector).await?;
    let name = site.connector.name();
    match site.state.as_deref() {
        None => print(&format!("connector {name} is gone: nothing is left to do\n")),
        Some(STOPPED) => {
            say(&format!("connector {name} will be deleted, with its configuration; slot and offset stay"));
            if confirmed(name, args.yes, "deletes it").await == Answer::Yes {
                site.connector.delete().await?;
                print(&format!("deleted {name}\n"));
            }
        }
        Some(_) => return Err(MigrateError::StillRuns(name.to_owned())),
    }
    Ok(Exit::Ok)
}

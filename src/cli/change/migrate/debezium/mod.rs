//! Migration from Debezium in Kafka Connect, and back: the steps that docs/migrate/from-debezium.md describes. outboxd continues
//! from Debezium's slot, after the last event of its stored offset, so no slot is created or moved.

mod connector;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use connector::Connector;

use super::args::{FinishArgs, From, RollbackArgs, StartArgs, TargetArgs};
use super::error::MigrateError;
use super::last_run::LastRun;
use super::outcome::Outcome;
use super::taken::Form;
use crate::cli::inspect::status::Direct;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::ask::{Answer, confirmed};
use crate::cli::shell::sql::open;
use crate::cli::shell::steps;
use crate::cli::shell::steps::{CompletedSteps, Step};
use crate::cli::shell::waiting::Waiting;
use crate::cli::{print, print_message};
use crate::error::Exit;
use crate::postgres::{SlotFacts, SlotName, Sql};
use crate::relay::{RelayParts, stored_offset};

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd migrate";

/// Time that a connector may take to stop: it flushes its offsets.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(200);

const STOPPED: &str = "STOPPED";
const RUNNING: &str = "RUNNING";

/// The connector, and the slot that it reads.
struct Site {
    connector: Connector,
    /// State as Connect names it; none if it was deleted.
    state: Option<String>,
    sql: Sql,
    name: SlotName,
    slot: Option<SlotFacts>,
    parts: Arc<RelayParts>,
}

impl Site {
    async fn look(args: &TargetArgs, connector: &str) -> Result<Self, MigrateError> {
        let connector = Connector::parse(connector)?;
        let parts = Arc::new(assemble(&args.config)?.parts);
        let sql = open(&parts.postgres.server, APPLICATION).await?;
        let name = parts.postgres.slot.name.clone();
        let (slot, state) = (sql.slot(&name).await?, connector.state().await?);
        Ok(Self { connector, state, sql, name, slot, parts })
    }

    /// Checks whether outboxd can continue from where Debezium stops.
    async fn check(&self) -> Result<(), MigrateError> {
        let Some(slot) = &self.slot else {
            return Err(MigrateError::no_such_slot(&self.sql, self.name.as_str()).await);
        };
        if slot.plugin.as_deref() != Some("pgoutput") {
            return Err(MigrateError::OtherSlot(self.name.to_string()));
        }
        if let Some(because) = slot.invalidation() {
            return Err(MigrateError::SlotLost { slot: self.name.to_string(), because: Some(because) });
        }
        let Some(place) = stored_offset(&self.parts).await? else { return Err(MigrateError::NoOffsets) };
        if place.is_there { Ok(()) } else { Err(MigrateError::NoStoredOffset(place)) }
    }

    fn existing(&self) -> Result<&str, MigrateError> {
        self.state.as_deref().ok_or_else(|| MigrateError::NoConnector(self.connector.to_string()))
    }

    /// Returns the process id of outboxd, if it reads the slot.
    fn is_ours(&self) -> Option<i32> {
        let slot = self.slot.as_ref()?;
        let ours = slot.application.as_deref().is_some_and(|name| name.starts_with("outboxd"));
        slot.active_pid.filter(|_| ours)
    }

    fn stop(&self) -> Step {
        let (name, url) = (self.connector.name(), &self.connector);
        let what = format!("connector {name} stops, and lets the slot go");
        let stops = Step::new(what, format!("PUT {url}/stop"), format!("PUT {url}/resume")).request();
        stops.unless(self.state.as_deref() == Some(STOPPED))
    }

    fn resume(&self) -> Step {
        let (name, url) = (self.connector.name(), &self.connector);
        let what = format!("connector {name} continues");
        Step::new(what, format!("PUT {url}/resume"), format!("PUT {url}/stop")).request()
    }

    fn delete(&self) -> Step {
        let (name, url) = (self.connector.name(), &self.connector);
        let what = format!("connector {name} is deleted, with its configuration");
        Step::for_good(what, format!("DELETE {url}")).request()
    }

    fn next(&self, args: &TargetArgs) -> String {
        args.in_commands(match (self.state.as_deref(), self.is_ours()) {
            (None, _) => "nothing is left to do",
            (Some(STOPPED), Some(_)) => {
                "next: outboxd migrate finish TARGET; back: stop outboxd, then outboxd migrate rollback TARGET"
            }
            (Some(STOPPED), None) => "next: outboxd run -c FILE; back: outboxd migrate rollback TARGET",
            (Some(_), _) => "next: outboxd migrate start TARGET",
        })
    }
}

/// Runs `plan` and `status`.
pub(super) async fn look(
    args: &TargetArgs,
    connector: &str,
    form: Form,
    plans: bool,
) -> Result<Exit, MigrateError> {
    let site = Site::look(args, connector).await?;
    if plans {
        site.existing()?;
        site.check().await?;
    }
    let (state, name) = (site.state.as_deref().unwrap_or("gone"), site.connector.name());
    let direct = site.slot.as_ref().map(|slot| Direct::of(site.name.to_string(), slot, None));
    if form == Form::Json {
        let steps = plans.then(|| steps::object(&[site.stop()]));
        let object = json!({
            "connector": name, "state": site.state, "slot": direct, "next": site.next(args), "steps": steps,
        });
        print(&format!("{object}\n"));
        return Ok(Exit::Ok);
    }
    let reader = direct.and_then(|slot| slot.holder).unwrap_or_else(|| "no client".to_owned());
    let steps = if plans { steps::shown(&[site.stop()]) } else { String::new() };
    print(&format!(
        "  connector {name} {state}\n  slot      {}, read by {}\n{}✓ {}\n",
        site.name,
        crate::cli::shell::text::clean(&reader),
        steps,
        site.next(args)
    ));
    Ok(Exit::Ok)
}

pub(super) async fn start(args: &StartArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, connector).await?;
    site.check().await?;
    site.existing()?;
    let mut doing = CompletedSteps::default();
    doing.carry_out(site.stop(), site.connector.stop()).await?;
    stopped(&site).await?;
    let name = site.connector.name();
    let outcome = Outcome::new("start", From::Connector(connector), name, doing)
        .said(format!("connector {name} is stopped, and no client reads slot {}", site.name))
        .next(args.target.in_commands("outboxd run -c FILE"))
        .undo(args.target.in_commands("outboxd migrate rollback TARGET"));
    Ok(outcome.report(args.json))
}

async fn stopped(site: &Site) -> Result<(), MigrateError> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    let mut waiting = Waiting::new();
    loop {
        let state = site.connector.state().await?;
        let reader = site.sql.slot(&site.name).await?.and_then(|slot| slot.active_pid);
        let is_stopped = state.as_deref() == Some(STOPPED);
        let name = site.connector.name();
        match reader {
            None if is_stopped => return Ok(()),
            Some(pid) if is_stopped => {
                waiting.report_waiting(&format!("pid {pid}, which reads slot {}", site.name), "");
            }
            _ => waiting.report_waiting(&format!("connector {name} to stop"), ""),
        }
        if Instant::now() >= deadline {
            return Err(MigrateError::NotStopped {
                connector: name.to_owned(),
                seconds: STOP_TIMEOUT.as_secs(),
            });
        }
        sleep(INTERVAL).await;
    }
}

pub(super) async fn rollback(args: &RollbackArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, connector).await?;
    site.existing()?;
    if let Some(pid) = site.is_ours() {
        return Err(MigrateError::Running { slot: site.name.to_string(), pid });
    }
    let confirmed = site.slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
    let last_run = match site.state.as_deref() {
        // The connector sends already: a check would be too late.
        Some(RUNNING) => LastRun::Ended,
        // Also a paused one, which continues from its stored offset when it is resumed.
        _ => LastRun::ask(&site.parts, confirmed).await?,
    };
    if last_run == LastRun::Broken {
        let anyway = format!("curl -X PUT {}/resume", site.connector);
        return Err(MigrateError::NotEnded { other: "Debezium", anyway });
    }
    let mut doing = CompletedSteps::default();
    doing.carry_out(site.resume(), site.connector.resume()).await?;
    let name = site.connector.name();
    if last_run == LastRun::Unknown {
        print_message(
            "  if outboxd has not ended with exit code 0, start and stop it once more: its offset is old otherwise",
        );
    }
    let outcome = Outcome::new("rollback", From::Connector(connector), name, doing);
    Ok(outcome.said(format!("connector {name} continues")).report(args.json))
}

pub(super) async fn finish(args: &FinishArgs, connector: &str) -> Result<Exit, MigrateError> {
    let site = Site::look(&args.target, connector).await?;
    let (name, mut doing) = (site.connector.name(), CompletedSteps::default());
    let outcome = |doing| Outcome::new("finish", From::Connector(connector), name, doing);
    match site.state.as_deref() {
        None => {
            let said = format!("connector {name} is gone: nothing is left to do");
            return Ok(outcome(doing).said(said).report(args.json));
        }
        Some(STOPPED) => {}
        Some(_) => return Err(MigrateError::StillRuns(name.to_owned())),
    }
    print_message(&format!("connector {name} will be deleted, with its configuration; slot and offset stay"));
    if confirmed(name, args.yes, "deletes it").await == Answer::No {
        return Ok(outcome(doing).declined(args.json));
    }
    doing.carry_out(site.delete(), site.connector.delete()).await?;
    Ok(outcome(doing).said(format!("deleted {name}")).report(args.json))
}

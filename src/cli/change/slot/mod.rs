//! `outboxd slot ls | create | drop | advance`: replication slots. A command that destroys first reports what
//! would be lost, and asks.

mod args;
mod create;
mod error;
mod loss;
mod ls;
mod moved;

pub(in crate::cli) use args::SlotArgs;

use args::{SlotCommand, TargetArgs};
use error::SlotError;

use crate::cli::asynchronously;
use crate::cli::shell::sql::open;
use crate::config::{DatabaseConfig, Sources};
use crate::error::Exit;
use crate::postgres::{Options, SlotFacts, SlotName, Sql};

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd slot";

/// Runs `outboxd slot`.
pub(in crate::cli) fn slot(args: &SlotArgs) -> Exit {
    let work = async {
        match &args.command {
            SlotCommand::Ls(args) => ls::ls(args).await,
            SlotCommand::Create(args) => create::create(args).await,
            SlotCommand::Drop(args) => moved::drop_slot(args).await,
            SlotCommand::Advance(args) => moved::advance(args).await,
        }
    };
    asynchronously(work).unwrap_or_else(|exit| exit)
}

/// The server, and the slot that is meant.
struct Target {
    options: Options,
    sql: Sql,
    name: String,
}

impl Target {
    async fn open(args: &TargetArgs) -> Result<Self, SlotError> {
        let options = options(&args.config.sources())?;
        // Before a query: no slot can have another name.
        let name =
            args.slot.clone().map_or_else(|| Ok(options.slot.name.clone()), SlotName::new)?.to_string();
        let sql = open(&options.server, APPLICATION).await?;
        Ok(Self { options, sql, name })
    }

    /// Returns whether it is the slot of the configuration, whose publication is that of the configuration
    /// too.
    fn is_own(&self) -> bool {
        self.name == self.options.slot.name.as_str()
    }

    /// Returns the slot, which must exist and be unused.
    async fn unread(&self) -> Result<SlotFacts, SlotError> {
        let facts = self.sql.slot_named(&self.name).await?;
        let facts = facts.ok_or_else(|| SlotError::NoSlot(self.name.clone()))?;
        match facts.active_pid {
            Some(pid) => {
                Err(SlotError::InUse { slot: self.name.clone(), pid, application: facts.application })
            }
            None => Ok(facts),
        }
    }
}

fn options(sources: &Sources) -> Result<Options, SlotError> {
    let config = DatabaseConfig::load(sources).map_err(|error| SlotError::Config(Box::new(error)))?;
    Ok(config.options)
}

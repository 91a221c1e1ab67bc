//! Arguments of `outboxd migrate`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_length;
use crate::cli::shell::typed::quoted;
use crate::http_client::Address;

#[derive(Debug, Args)]
pub(in crate::cli) struct MigrateArgs {
    #[command(subcommand)]
    pub(super) command: MigrateCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum MigrateCommand {
    /// Show the statements of start, each with its undo; change nothing
    Plan(PlanArgs),
    /// Switch new rows to outboxd; repeat to continue after an interruption
    Start(StartArgs),
    /// Show the progress and the next step
    Status(StatusArgs),
    /// Remove the objects of the migration; asks for confirmation
    Finish(FinishArgs),
    /// Switch new rows back; repeat to continue after an interruption
    Rollback(RollbackArgs),
}

/// Source of a migration.
#[derive(Debug, Clone, Copy)]
pub(super) enum From<'a> {
    Poller,
    Slot(&'a str),
    Connector(&'a str),
}

/// What is handed over.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Column in which the poller marks sent rows: published_at, sent; for text and number columns with the value that
    /// means sent: status=PUBLISHED. Default: detected by its name
    #[arg(long, value_name = "COLUMN[=VALUE]")]
    pub(super) mark: Option<String>,
    /// Value of rows that the poller has not sent; default: all values but the one of --mark. Repeatable
    #[arg(long, value_name = "VALUE")]
    pub(super) unsent: Vec<String>,
    /// Migrate from another program that reads this slot by pgoutput (Sequin, go-pq-cdc): the slot is copied
    #[arg(long, value_name = "SLOT", conflicts_with_all = ["mark", "unsent"])]
    pub(super) from_slot: Option<String>,
    /// Migrate from Debezium in Kafka Connect: the connector is stopped, and outboxd continues from its slot and offset
    #[arg(long, value_name = "http://HOST:8083/connectors/NAME", conflicts_with_all = ["mark", "unsent", "from_slot"])]
    pub(super) from_connector: Option<String>,
}

impl TargetArgs {
    pub(super) fn from(&self) -> From<'_> {
        match (&self.from_slot, &self.from_connector) {
            (Some(slot), _) => From::Slot(slot),
            (None, Some(connector)) => From::Connector(connector),
            (None, None) => From::Poller,
        }
    }

    /// Returns a text in whose commands `TARGET`, or `-c FILE` in those about the configuration alone, is replaced by the given options.
    pub(super) fn in_commands(&self, text: &str) -> String {
        let from = match self.from() {
            From::Slot(slot) => format!(" --from-slot {}", quoted(slot)),
            // Without the credentials in it.
            From::Connector(url) => {
                let url = Address::parse(url).map_or_else(|| "URL".to_owned(), |address| address.to_string());
                format!(" --from-connector {}", quoted(&url))
            }
            From::Poller => {
                let mark = self.mark.iter().map(|mark| format!(" --mark {}", quoted(mark)));
                mark.chain(self.unsent.iter().map(|value| format!(" --unsent {}", quoted(value)))).collect()
            }
        };
        self.config.in_commands(&text.replace("TARGET", &format!("-c FILE{from}")))
    }
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Print one JSON object
    #[arg(long, conflicts_with = "print_sql")]
    pub(super) json: bool,
    /// Print the statements as a script (none for a connector)
    #[arg(long, conflicts_with = "from_connector")]
    pub(super) print_sql: bool,
}

#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Time without rows that wait for the poller before it counts as done
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_length)]
    pub(super) settle: Duration,
    /// Print one JSON object; progress goes to stderr
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FinishArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
    /// Time to watch for other readers of the table; longer than the poller's interval
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = parse_length)]
    pub(super) look: Duration,
    /// Do not watch for other readers of the table
    #[arg(long)]
    pub(super) poller_is_stopped: bool,
    /// Print one JSON object; progress goes to stderr
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Roll back without waiting: the poller sends outboxd's rows too
    #[arg(long)]
    pub(super) poller_sends_all: bool,
    /// Time that inserts may wait while outboxd sends its last rows
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_length)]
    pub(super) hold: Duration,
    /// Print one JSON object; progress goes to stderr
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_source_of_a_migration() {
        let config = || ConfigArgs { config: vec!["o.json".into()], set: Vec::new() };
        let poller = || TargetArgs {
            config: config(),
            mark: Some("status=SENT".to_owned()),
            unsent: vec!["NEW".to_owned()],
            from_slot: None,
            from_connector: None,
        };
        let connector = Some("http://me:word@connect:8083/connectors/orders".to_owned());
        let cases = [
            (poller(), " --mark status=SENT --unsent NEW"),
            (TargetArgs { from_slot: Some("theirs".to_owned()), ..poller() }, " --from-slot theirs"),
            (
                TargetArgs { from_connector: connector, ..poller() },
                " --from-connector http://connect:8083/connectors/orders",
            ),
        ];
        for (target, expected) in cases {
            let said = target.in_commands("outboxd migrate start TARGET, then outboxd run -c FILE");
            assert_eq!(
                said,
                format!("outboxd migrate start -c o.json{expected}, then outboxd run -c o.json")
            );
        }
    }
}

//! Arguments of `outboxd inbox`.

use clap::{Args, Subcommand};

use super::place::{Place, Selection};
use crate::cli::args::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct InboxArgs {
    #[command(subcommand)]
    pub(super) command: InboxCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum InboxCommand {
    /// List partitions, parked events and blocked keys
    ///
    /// Example: outboxd inbox ls --postgres postgresql://shop@db/shop
    Ls(LsArgs),
    /// Show parked events; their values only with --value
    ///
    /// Example: outboxd inbox show --consumer payments --key 42 --postgres postgresql://shop@db/shop
    Show(ShowArgs),
    /// Let keys continue that wait behind a dead letter
    ///
    /// A dead letter that was sent again and waits is applied at its old place.
    Release(ChangeArgs),
    /// Make the next attempt of parked events due now
    Retry(ChangeArgs),
    /// Give up a parked event or a missing number
    ///
    /// The event is not applied, and those behind it continue. With --key it is the first event of the key. It is not remembered: its
    /// record is applied when it is sent again.
    Skip(SkipArgs),
    /// Forget that an event was applied, so that it is applied again
    Forget(ForgetArgs),
}

/// Connection to the database with the tables.
#[derive(Debug, Args)]
pub(super) struct TablesArgs {
    /// The service's database: postgresql://user@host:5432/database. The password is in it or in OUTBOXD_DATABASE_PASSWORD
    #[arg(long, value_name = "URL")]
    pub(super) postgres: Option<String>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// The schema of the inbox's tables; found by the role's search_path when not given
    #[arg(long, value_name = "NAME")]
    pub(super) schema: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    pub(super) tables: TablesArgs,
    /// Only this consumer
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: Option<String>,
    /// List at most this number of blocked keys, those that wait longest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32))]
    pub(super) keys: u32,
}

/// One event, or a key.
#[derive(Debug, Args)]
#[group(id = "event", required = true, multiple = false)]
pub(super) struct EventArgs {
    /// The key, as text
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The event with this id in the header id, idempotency-key, ce_id or message-id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The event at this place
    #[arg(long, value_name = "TOPIC:PARTITION:OFFSET", value_parser = Place::parse)]
    at: Option<Place>,
}

/// Events of a consumer.
#[derive(Debug, Args)]
#[group(id = "events", required = true, multiple = false)]
pub(super) struct EventsArgs {
    /// Events with this key, as text
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The event with this id in the header id, idempotency-key, ce_id or message-id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The event at this place
    #[arg(long, value_name = "TOPIC:PARTITION:OFFSET", value_parser = Place::parse)]
    at: Option<Place>,
    /// All events of the consumer
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) tables: TablesArgs,
    /// The consumer
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: String,
    #[command(flatten)]
    pub(super) event: EventArgs,
    /// Show the values of events and headers too
    #[arg(long)]
    pub(super) value: bool,
}

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    pub(super) tables: TablesArgs,
    /// The consumer
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: String,
    #[command(flatten)]
    pub(super) events: EventsArgs,
    /// Change the tables; otherwise print what would change
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct SkipArgs {
    #[command(flatten)]
    pub(super) tables: TablesArgs,
    /// The consumer
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: String,
    #[command(flatten)]
    pub(super) event: EventArgs,
    /// For Dedupe::Sequence: the number of the event, or the missing number of the key
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) number: Option<i64>,
    /// Skip the missing numbers from --number to this one
    #[arg(long, value_name = "N", requires = "number", allow_negative_numbers = true)]
    pub(super) through: Option<i64>,
    /// Change the tables; otherwise print what would change
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    #[command(flatten)]
    pub(super) tables: TablesArgs,
    /// The consumer
    #[arg(long, value_name = "NAME")]
    pub(super) consumer: String,
    /// The id of the event
    #[arg(long, value_name = "ID", required_unless_present = "number", conflicts_with = "number")]
    pub(super) id: Option<String>,
    /// The scope of the id, a topic or the source of CloudEvents, or the topic of the number; needed when several remember it
    #[arg(long, value_name = "SOURCE")]
    pub(super) source: Option<String>,
    /// For Dedupe::Sequence: the number of the event
    #[arg(long, value_name = "N", requires = "key", allow_negative_numbers = true)]
    pub(super) number: Option<i64>,
    /// The key of the number, as text
    #[arg(long, value_name = "KEY", requires = "number")]
    pub(super) key: Option<String>,
    /// Change the tables; otherwise print what would change
    #[arg(long)]
    pub(super) yes: bool,
}

impl EventArgs {
    pub(super) fn selection(&self) -> Selection {
        selection(self.key.as_ref(), self.id.as_ref(), self.at.as_ref())
    }
}

impl EventsArgs {
    pub(super) fn selection(&self) -> Selection {
        selection(self.key.as_ref(), self.id.as_ref(), self.at.as_ref())
    }
}

/// Returns the selection: the one that is given, or all events.
fn selection(key: Option<&String>, id: Option<&String>, at: Option<&Place>) -> Selection {
    let by_key = key.map(|key| Selection::Key(key.clone().into_bytes()));
    let by_id = || id.map(|id| Selection::Id(id.clone()));
    let by_place = || at.map(|at| Selection::Place(at.clone()));
    by_key.or_else(by_id).or_else(by_place).unwrap_or(Selection::All)
}

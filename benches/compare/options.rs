use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

use crate::contestant::Contestant;
use crate::tables::Form;

/// Measures outboxd beside others, on a PostgreSQL and a Kafka of its own
#[derive(Debug, Parser)]
#[command(name = "compare", max_term_width = 110)]
pub(crate) struct Options {
    /// Rows of the backlog
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Rows that a transaction inserts
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_transaction: u64,
    /// Rows that each transaction inserts into a table that is not captured
    #[arg(long, default_value_t = 0)]
    pub(crate) other_rows: u64,
    /// Bytes of a row's payload, about
    #[arg(long, default_value_t = 300)]
    pub(crate) payload: u64,
    /// Number of times that each contestant processes the backlog; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,
    /// Conversion of a row
    #[arg(long, value_enum, default_value_t = Shape::Plain)]
    pub(crate) shape: Shape,
    /// Number of tables that the rows go to in turn, with `--shape tables`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) tables: u64,
    /// Update each row too and delete some, with `--shape tables`
    #[arg(long)]
    pub(crate) mix: bool,
    /// Format of change events, with `--shape tables`
    #[arg(long, value_enum, default_value_t = Form::Json)]
    pub(crate) form: Form,
    /// The producers' `compression.type`, of outboxd and Debezium
    #[arg(long, default_value = "none", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    pub(crate) compression: String,
    /// These contestants only; all that can be had when not given
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Contestant>,
    /// The pg_recvlogical to take; the server's own or the newest installed when not given
    #[arg(long, value_name = "FILE")]
    pub(crate) pg_recvlogical: Option<PathBuf>,
    /// Another build of outboxd, such as the last release
    #[arg(long, value_name = "FILE")]
    pub(crate) another: Option<PathBuf>,
    /// A Kafka with Connect: the folder that has `libs`
    #[arg(long, value_name = "DIR", requires = "debezium")]
    pub(crate) connect: Option<PathBuf>,
    /// Debezium: the plugin folder, which has `debezium-connector-postgres`
    #[arg(long, value_name = "DIR", requires = "connect")]
    pub(crate) debezium: Option<PathBuf>,
    /// Measure the time from commit to consumer instead, at this number of transactions of one row a second
    #[arg(long, value_name = "RATE", conflicts_with = "soak", value_parser = clap::value_parser!(u32).range(1..=2000))]
    latency: Option<u32>,
    /// Seconds for which --latency measures each contestant
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Run outboxd under load for so long instead, and look whether its memory grows
    #[arg(long, value_name = "MINUTES", value_parser = duration)]
    soak: Option<Duration>,
    /// Let `outboxd verify` compare the rows with their records instead
    #[arg(long, conflicts_with_all = ["latency", "soak"])]
    verify: bool,
    /// Rows a second of --soak
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) rate: u64,
    /// Option that `cargo bench` adds
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// Kind of measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// A backlog.
    Drain,
    /// From commit to consumer, at this number of transactions a second.
    Latency {
        rate: u32,
    },
    Soak {
        duration: Duration,
    },
    Verify,
}

/// Conversion of a row. `Plain` is the payload as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// The payload as it is (`StringConverter`)
    Plain,
    /// The payload taken apart (`table.expand.json.payload`) and written by `JsonConverter`
    Expand,
    /// Payload and type in an envelope, written by `JsonConverter`
    Envelope,
    /// The payload with its schema, written by `JsonConverter`
    Schemas,
    /// No outbox: change events of tables, see `--tables`, `--mix` and `--form`
    Tables,
}

impl Options {
    /// Reads the command line; ends the process if it is invalid.
    pub(crate) fn read() -> Self {
        let options = Self::parse();
        if options.only.contains(&Contestant::Debezium) && options.debezium.is_none() {
            let missing = "debezium takes part with --connect and --debezium only";
            Self::command().error(ErrorKind::MissingRequiredArgument, missing).exit();
        }
        if options.only.contains(&Contestant::Another) && options.another.is_none() {
            let missing = "another build takes part with --another only";
            Self::command().error(ErrorKind::MissingRequiredArgument, missing).exit();
        }
        if options.shape == Shape::Tables && !matches!(options.mode(), Mode::Drain) {
            let conflict = "--shape tables is for a backlog only";
            Self::command().error(ErrorKind::ArgumentConflict, conflict).exit();
        }
        if options.form == Form::Avro && options.wants(Contestant::Debezium) && options.debezium.is_some() {
            let conflict = "Debezium's plugin folder has no Avro converter: leave it out with --only";
            Self::command().error(ErrorKind::ArgumentConflict, conflict).exit();
        }
        options
    }

    pub(crate) fn mode(&self) -> Mode {
        match (self.latency, self.soak) {
            (Some(rate), _) => Mode::Latency { rate },
            (None, Some(duration)) => Mode::Soak { duration },
            (None, None) if self.verify => Mode::Verify,
            (None, None) => Mode::Drain,
        }
    }

    /// Returns whether the user has not excluded the contestant.
    pub(crate) fn wants(&self, contestant: Contestant) -> bool {
        self.only.is_empty() || self.only.contains(&contestant)
    }
}

fn duration(minutes: &str) -> Result<Duration, String> {
    let minutes: f64 = minutes.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}

impl Shape {
    /// Returns the settings, which are the same for outboxd and Debezium.
    pub(crate) const fn settings(self) -> &'static [(&'static str, &'static str)] {
        const STRING: (&str, &str) = ("value.converter", "org.apache.kafka.connect.storage.StringConverter");
        const JSON: (&str, &str) = ("value.converter", "org.apache.kafka.connect.json.JsonConverter");
        const NO_SCHEMAS: (&str, &str) = ("value.converter.schemas.enable", "false");
        const EXPAND: (&str, &str) = ("transforms.outbox.table.expand.json.payload", "true");
        const PLACEMENT: (&str, &str) =
            ("transforms.outbox.table.fields.additional.placement", "type:envelope");
        match self {
            Self::Plain => &[STRING],
            Self::Expand => &[JSON, NO_SCHEMAS, EXPAND],
            Self::Envelope => &[JSON, NO_SCHEMAS, PLACEMENT],
            Self::Schemas => &[JSON],
            Self::Tables => &[],
        }
    }
}

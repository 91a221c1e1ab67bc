use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Peer, ReplicaIdentities};
use crate::secret::Secret;

/// How PostgreSQL is reached and what is asked of it. Each field names its Debezium option.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server is and who we are.
    pub server: ServerOptions,
    /// The slot.
    pub slot: SlotOptions,
    /// The publication.
    pub publication: PublicationOptions,
    /// What is captured.
    pub tables: TableOptions,
    /// Whether rows that are already there are sent.
    pub snapshot: SnapshotOptions,
    /// `status.update.interval.ms` (default 10 s): how often the walsender hears from us at least.
    pub status_interval: Duration,
    /// `outboxd.message.max.bytes` (default 1 GiB): a larger protocol message ends the connection.
    pub message_bytes_max: usize,
    /// `read.only` (false): nothing is written to the database, so that it may be a standby.
    pub read_only: bool,
}

/// Where the server is and who we are.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// `database.hostname`: a name, an address, or a folder holding the server's socket.
    pub host: String,
    /// `database.port` (5432).
    pub port: u16,
    /// `database.user`.
    pub user: String,
    /// `database.password`.
    pub password: Option<Secret>,
    /// `database.dbname`.
    pub database: String,
    /// `database.sslmode` and its files.
    pub tls: TlsOptions,
    /// `database.tcpKeepAlive` (true).
    pub tcp_keepalive: bool,
    /// `database.initial.statements`: SQL run, in order, on each connection but that of the stream.
    pub initial_statements: Vec<String>,
    /// `database.query.timeout.ms` (600 s).
    pub query_timeout: Duration,
    /// How long one attempt to connect may take (`outboxd.connect.timeout.ms`, 5 s).
    pub connect_timeout: Duration,
}

impl ServerOptions {
    /// How messages name the server.
    #[must_use]
    pub fn address(&self) -> String {
        match self.unix_socket() {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// The socket's path, when `database.hostname` is a folder.
    #[must_use]
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
}

impl Options {
    /// Whether a slot that is lost is made anew, with a snapshot.
    #[must_use]
    pub fn recovers(&self) -> bool {
        self.slot.recovery == SlotRecovery::Snapshot || self.snapshot.mode == SnapshotMode::WhenNeeded
    }
}

/// `database.sslmode`, with libpq's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Only when the server refuses plain text.
    Allow,
    /// When the server offers it (Debezium's default).
    #[default]
    Prefer,
    /// Always; the certificate is not looked at (unless `sslrootcert` is set, as in libpq).
    Require,
    /// Always; the certificate must come from a trusted authority.
    VerifyCa,
    /// Always; and it must name the host.
    VerifyFull,
}

impl SslMode {
    /// Every mode with its name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("disable", Self::Disable),
        ("allow", Self::Allow),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    /// The mode's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// TLS towards PostgreSQL.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// `database.sslmode`.
    pub mode: SslMode,
    /// `database.sslrootcert`: PEM file of trusted authorities; the system's when absent.
    pub root_cert: Option<PathBuf>,
    /// `database.sslcert`: PEM file of our certificate.
    pub cert: Option<PathBuf>,
    /// `database.sslkey`: our key, PEM or PKCS#8 DER as pgjdbc wants it.
    pub key: Option<PathBuf>,
    /// `database.sslpassword`: opens the key.
    pub key_password: Option<Secret>,
}

/// The replication slot.
#[derive(Debug, Clone)]
pub struct SlotOptions {
    /// `slot.name` (debezium).
    pub name: SlotName,
    /// `slot.drop.on.stop` (false).
    pub drop_on_stop: bool,
    /// `slot.failover` (false).
    pub failover: bool,
    /// `slot.recovery` (fail): what becomes of a slot that is lost.
    pub recovery: SlotRecovery,
    /// `slot.max.retries` and `slot.retry.delay.ms`, when said: how often a slot held by another program is tried again.
    pub retry: Option<SlotRetry>,
    /// `slot.stream.params`: more options for pgoutput.
    pub stream_params: Vec<(String, String)>,
    /// `xmin.fetch.interval.ms` (0, never): how often `source.xmin` is asked for.
    pub xmin_interval: Option<Duration>,
    /// Who may stand by for the slot's holder.
    pub peer: Peer,
}

/// `slot.recovery`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotRecovery {
    /// The relay ends.
    #[default]
    Fail,
    /// It is made anew, and all rows that are still in the tables are sent.
    Snapshot,
}

/// How often, and how far apart, an occupied slot is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRetry {
    /// `slot.max.retries` (6).
    pub retries_max: u32,
    /// `slot.retry.delay.ms` (10 s).
    pub delay: Duration,
}

const SLOT_NAME_MAX: usize = 63;

/// A name that PostgreSQL accepts for a slot: 1 to 63 of `a-z`, `0-9` and `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotName(String);

/// A text that is no slot name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a slot name: PostgreSQL takes 1 to 63 of a-z, 0-9 and _")]
pub struct InvalidSlotName(String);

impl InvalidSlotName {
    /// The name that is most like it.
    #[must_use]
    pub fn like(&self) -> SlotName {
        SlotName::like(&self.0)
    }
}

impl Default for SlotName {
    /// Debezium's default.
    fn default() -> Self {
        Self("debezium".to_owned())
    }
}

impl SlotName {
    /// Checks the name.
    ///
    /// # Errors
    /// When PostgreSQL would refuse it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidSlotName> {
        let name = name.into();
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if (1..=SLOT_NAME_MAX).contains(&name.len()) && name.bytes().all(legal) {
            Ok(Self(name))
        } else {
            Err(InvalidSlotName(name))
        }
    }

    /// One that PostgreSQL takes and that is most like this text.
    fn like(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = text.trim().chars().map(plain).take(SLOT_NAME_MAX).collect();
        if name.chars().all(|c| c == '_') { Self::default() } else { Self(name) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SlotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The publication.
#[derive(Debug, Clone)]
pub struct PublicationOptions {
    /// `publication.name` (`dbz_publication`).
    pub name: String,
    /// `publication.autocreate.mode`.
    pub autocreate: Autocreate,
    /// Which operations a publication that we make carries.
    pub operations: PublishedOperations,
    /// Which operations one needs to carry, whoever has made it.
    pub needed: PublishedOperations,
    /// `publish.via.partition.root` (false), for a publication that we make.
    pub via_partition_root: bool,
    /// Whether captured tables may be missing in it: for change events, where `publication.autocreate.mode` leaves the tables to
    /// the user.
    pub may_lack_tables: bool,
}

/// `publication.autocreate.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autocreate {
    /// It must exist.
    Disabled,
    /// `FOR ALL TABLES`.
    AllTables,
    /// For the captured tables; altered when they differ. Our default, where Debezium's is `all_tables`.
    Filtered,
    /// Without tables.
    NoTables,
}

/// Which operations a publication that we make carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishedOperations {
    /// Inserts: all that an outbox sends. Deletes then need no replica identity.
    Inserts,
    /// PostgreSQL's default: insert, update, delete and truncate.
    All,
    /// What `publish` says of some of them.
    Listed(String),
}

impl PublishedOperations {
    /// As `publish` names them.
    #[must_use]
    pub fn publish(&self) -> &str {
        match self {
            Self::Inserts => "insert",
            Self::All => "insert, update, delete, truncate",
            Self::Listed(operations) => operations,
        }
    }

    /// Whether inserts are among them.
    #[must_use]
    pub fn has_inserts(&self) -> bool {
        self.publish().starts_with("insert")
    }
}

/// What is captured: anchored, case-insensitive Java regular expressions, as Debezium reads them.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// `schema.include.list`.
    pub schema_include: Vec<String>,
    /// `schema.exclude.list`.
    pub schema_exclude: Vec<String>,
    /// `table.include.list`, on `schema.table`. Empty means: every table that has the router's columns.
    pub table_include: Vec<String>,
    /// `table.exclude.list`.
    pub table_exclude: Vec<String>,
    /// `signal.data.collection`: captured whatever the lists say.
    pub signals: Option<String>,
    /// `table.ignore.builtin=false`: `spatial_ref_sys`, which PostGIS makes, is a table like others.
    pub includes_builtin: bool,
    /// `replica.identity.autoset.values`: for change events.
    pub identities: ReplicaIdentities,
    /// `guardrail.collections.max`, unless it is 0.
    pub guardrail: Option<Guardrail>,
}

/// How many tables may be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrail {
    /// `guardrail.collections.max`, from 1.
    pub tables_max: usize,
    /// `guardrail.collections.limit.action=fail`: with more the relay does not start. Otherwise that is a warning.
    pub fails: bool,
}

/// Whether rows that are already in the table are sent, and which.
#[derive(Debug, Clone, Default)]
pub struct SnapshotOptions {
    /// `snapshot.mode` (initial).
    pub mode: SnapshotMode,
    /// `snapshot.include.collection.list`, on `schema.table`: regular expressions. Empty means: every captured table.
    pub include: Vec<String>,
    /// `snapshot.select.statement.overrides`: a table (`schema.table`) and the SELECT that reads it.
    pub overrides: Vec<(String, String)>,
    /// `snapshot.max.threads` (1): connections that read at once. The rows of an outbox are read by one.
    pub connections: u32,
    /// `snapshot.tables.order.by.row.count` (disabled): which tables several connections begin first. Those of an outbox come as listed.
    pub order: TableOrder,
    /// `snapshot.delay.ms` (0): how long a snapshot waits before it reads.
    pub delay: Duration,
    /// `streaming.delay.ms` (0): how long the stream waits after a snapshot.
    pub streaming_delay: Duration,
}

/// `snapshot.tables.order.by.row.count`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableOrder {
    /// `disabled`
    #[default]
    AsListed,
    /// `ascending`, by what the catalog estimates.
    FewestRowsFirst,
    /// `descending`
    MostRowsFirst,
}

/// `snapshot.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotMode {
    /// Once: when there is no slot yet.
    #[default]
    Initial,
    /// At every start of the process.
    Always,
    /// Once, and then stop; no slot is made.
    InitialOnly,
    /// Never (`never` in older versions).
    NoData,
    /// When there is no slot, or the slot has lost WAL.
    WhenNeeded,
}

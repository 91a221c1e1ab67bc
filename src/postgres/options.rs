//! Options of the connection to PostgreSQL and of the stream.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Peer, ReplicaIdentities};
use crate::credentials::{self, Target};
use crate::secret::Secret;

/// Options of the connection to PostgreSQL and of the stream. Each field names its Debezium option.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address and credentials.
    pub server: ServerOptions,
    /// The slot.
    pub slot: SlotOptions,
    /// The publication.
    pub publication: PublicationOptions,
    /// Captured tables.
    pub tables: TableOptions,
    /// Snapshot of existing rows.
    pub snapshot: SnapshotOptions,
    /// `status.update.interval.ms` (default 10 s): longest interval between two status updates to the
    /// walsender.
    pub status_interval: Duration,
    /// `outboxd.message.max.bytes` (default 1 GiB): a larger protocol message ends the connection.
    pub message_bytes_max: usize,
    /// `read.only` (false): nothing is written to the database, so that it may be a standby.
    pub read_only: bool,
}

/// Address and credentials.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// `database.hostname`: a name, an address, or a folder holding the server's socket.
    pub host: String,
    /// `database.port` (5432).
    pub port: u16,
    /// `database.user`.
    pub user: String,
    /// Source of the password: `database.password`, a command or the password file.
    pub password: credentials::Source,
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
    /// Timeout of one attempt to connect (`outboxd.connect.timeout.ms`, 5 s).
    pub connect_timeout: Duration,
}

impl ServerOptions {
    /// Returns the server's address for messages.
    #[must_use]
    pub fn address(&self) -> String {
        match self.unix_socket() {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns the connection for which a credential is requested.
    pub(crate) fn target(&self) -> Target {
        let (host, database, user) = (self.host.clone(), self.database.clone(), self.user.clone());
        Target { host, port: self.port, database, user }
    }

    /// Returns the socket's path, when `database.hostname` is a folder.
    #[must_use]
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.host.starts_with('/').then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }
}

impl Options {
    /// Returns whether a lost slot is recreated, with a snapshot.
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
    /// TLS only when the server refuses plain text.
    Allow,
    /// TLS when the server offers it (Debezium's default).
    #[default]
    Prefer,
    /// Always; the certificate is not checked (unless `sslrootcert` is set, as in libpq).
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

    /// Returns the mode's name.
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
    /// `database.sslkey`: our key, PEM or PKCS#8 DER as pgjdbc requires it.
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
    /// `slot.recovery` (fail): treatment of a lost slot.
    pub recovery: SlotRecovery,
    /// `slot.max.retries` and `slot.retry.delay.ms`, when set: retries for a slot that another program has.
    pub retry: Option<SlotRetry>,
    /// `slot.stream.params`: more options for pgoutput.
    pub stream_params: Vec<(String, String)>,
    /// `xmin.fetch.interval.ms` (0, never): interval of the queries for `source.xmin`.
    pub xmin_interval: Option<Duration>,
    /// Identity by which another instance may stand by for the slot's reader.
    pub peer: Peer,
}

/// `slot.recovery`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotRecovery {
    /// The relay ends.
    #[default]
    Fail,
    /// Recreated, and all rows that are still in the tables are sent.
    Snapshot,
}

/// Retries for an occupied slot, and the pause between them.
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
    /// Returns the most similar valid name.
    #[must_use]
    pub fn like(&self) -> SlotName {
        SlotName::like(&self.0)
    }
}

impl Default for SlotName {
    /// Returns Debezium's default.
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

    /// Returns the valid name that is most similar to this text.
    fn like(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = text.trim().chars().map(plain).take(SLOT_NAME_MAX).collect();
        if name.chars().all(|c| c == '_') { Self::default() } else { Self(name) }
    }

    /// Returns the name.
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
    /// Operations of a publication that outboxd creates.
    pub operations: PublishedOperations,
    /// Operations that any publication must have.
    pub needed: PublishedOperations,
    /// `publish.via.partition.root` (false), for a publication that outboxd creates.
    pub via_partition_root: bool,
    /// Allows captured tables to be missing in it: for change events, unless `publication.autocreate.mode` is `filtered`. The events
    /// of an outbox must not be lost.
    pub may_lack_tables: bool,
}

/// `publication.autocreate.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autocreate {
    /// Must exist.
    Disabled,
    /// `FOR ALL TABLES`.
    AllTables,
    /// Created for the captured tables; altered when they differ. The default here, where Debezium's is
    /// `all_tables`.
    Filtered,
    /// Created without tables.
    NoTables,
}

/// Operations of a publication that outboxd creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishedOperations {
    /// Inserts: all that an outbox sends. Deletes then need no replica identity.
    Inserts,
    /// PostgreSQL's default: insert, update, delete and truncate.
    All,
    /// Value of `publish`.
    Listed(String),
}

impl PublishedOperations {
    /// Returns them as `publish` names them.
    #[must_use]
    pub fn publish(&self) -> &str {
        match self {
            Self::Inserts => "insert",
            Self::All => "insert, update, delete, truncate",
            Self::Listed(operations) => operations,
        }
    }

    /// Returns whether inserts are among them.
    #[must_use]
    pub fn has_inserts(&self) -> bool {
        self.publish().starts_with("insert")
    }
}

/// Captured tables: anchored, case-insensitive Java regular expressions, as Debezium reads them.
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
    /// `signal.data.collection`: captured regardless of the lists.
    pub signals: Option<String>,
    /// `table.ignore.builtin=false`: `spatial_ref_sys` of PostGIS is a table like others.
    pub includes_builtin: bool,
    /// `replica.identity.autoset.values`: for change events.
    pub identities: ReplicaIdentities,
    /// `guardrail.collections.max`, unless it is 0.
    pub guardrail: Option<Guardrail>,
}

/// Most tables that may be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrail {
    /// `guardrail.collections.max`, from 1.
    pub tables_max: usize,
    /// `guardrail.collections.limit.action=fail`: with more the relay does not start. Otherwise that is a warning.
    pub fails: bool,
}

/// Existing rows of the tables that are sent, if any.
#[derive(Debug, Clone, Default)]
pub struct SnapshotOptions {
    /// `snapshot.mode` (initial).
    pub mode: SnapshotMode,
    /// `snapshot.include.collection.list`, on `schema.table`: regular expressions. Empty means: every captured table.
    pub include: Vec<String>,
    /// `snapshot.select.statement.overrides`: a table (`schema.table`) and the SELECT that reads it.
    pub overrides: Vec<(String, String)>,
    /// `snapshot.max.threads` (1): number of connections that read in parallel. The rows of an outbox are read over one.
    pub connections: u32,
    /// `snapshot.tables.order.by.row.count` (disabled): order in which several connections begin tables. Those of an outbox are read as listed.
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
    /// `ascending`, by the catalog's estimates.
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
    /// Once, and then stop; no slot is created.
    InitialOnly,
    /// Never (`never` in older versions).
    NoData,
    /// Without a slot, or with one that has lost WAL.
    WhenNeeded,
}

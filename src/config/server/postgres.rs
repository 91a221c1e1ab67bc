//! PostgreSQL's part of the configuration.

use std::time::Duration;

use crate::postgres::{
    Autocreate, Guardrail, Options, Peer, PublicationOptions, PublishedOperations, ReplicaIdentities,
    ServerOptions, SlotName, SlotOptions, SlotRecovery, SlotRetry, SslMode, TableOptions, TlsOptions,
};

use super::{credentials, databases};
use crate::config::features::snapshot;
use crate::config::read::Reader;

/// Reads the options. `alias` is the EventRouter's; without one all changes are captured.
pub(in crate::config) fn options(
    reader: &mut Reader<'_>,
    alias: Option<&str>,
    connect_timeout: Duration,
) -> Options {
    check_plugin(reader);
    let server = server(reader, connect_timeout);
    databases::check(reader, &server.database);
    let mut slot = slot(reader);
    let publication = publication(reader, alias);
    for kind in ["schema", "message.prefix"] {
        reader.refuse_both(&format!("{kind}.include.list"), &format!("{kind}.exclude.list"));
    }
    // Not refused: an operator names a table here to lose its rows on purpose (ADR 22).
    if ["table.include.list", "table.exclude.list"].iter().all(|key| reader.filled(key).is_some()) {
        let text = "its tables are not captured although table.include.list is set too; Debezium refuses that: \
                    \"table.include.list\" is already specified";
        reader.assume("table.exclude.list", text);
    }
    let tables = TableOptions {
        schema_include: reader.regex_list("schema.include.list"),
        schema_exclude: reader.regex_list("schema.exclude.list"),
        table_include: reader.regex_list("table.include.list"),
        table_exclude: reader.regex_list("table.exclude.list"),
        signals: None,
        includes_builtin: !reader.boolean("table.ignore.builtin", true),
        identities: if alias.is_none() { identities(reader) } else { ReplicaIdentities::default() },
        guardrail: guardrail(reader),
    };
    let status_interval = reader.millis("status.update.interval.ms", 1, Duration::from_secs(10));
    let message_bytes_max = reader.integer("outboxd.message.max.bytes", 1024..=i64::from(i32::MAX), 1 << 30);
    let snapshot = snapshot::options(reader);
    if snapshot::closes_gaps(reader) {
        slot.recovery = SlotRecovery::Snapshot;
    }
    let read_only = reader.boolean("read.only", false);
    Options { server, slot, publication, tables, snapshot, status_interval, message_bytes_max, read_only }
}

fn server(reader: &mut Reader<'_>, connect_timeout: Duration) -> ServerOptions {
    ServerOptions {
        host: reader.required("database.hostname", "the server to read from", "localhost"),
        port: reader.integer("database.port", 1..=65535, 5432),
        user: reader.required("database.user", "the role to log in as, with REPLICATION", "outboxd"),
        password: credentials::password(reader),
        database: reader.required("database.dbname", "the database that holds the outbox", "orders"),
        tls: tls(reader),
        tcp_keepalive: reader.boolean("database.tcpKeepAlive", true),
        initial_statements: statements(reader.text("database.initial.statements").unwrap_or_default()),
        query_timeout: reader.millis("database.query.timeout.ms", 0, Duration::from_secs(600)),
        connect_timeout,
    }
}

fn tls(reader: &mut Reader<'_>) -> TlsOptions {
    let modes = [
        ("disable", SslMode::Disable),
        ("allow", SslMode::Allow),
        ("prefer", SslMode::Prefer),
        ("require", SslMode::Require),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-full", SslMode::VerifyFull),
    ];
    TlsOptions {
        mode: reader.choice("database.sslmode", &modes, SslMode::default()),
        root_cert: reader.path("database.sslrootcert"),
        cert: reader.path("database.sslcert"),
        key: reader.path("database.sslkey"),
        key_password: reader.secret("database.sslpassword"),
    }
}

fn slot(reader: &mut Reader<'_>) -> SlotOptions {
    let drop_on_stop = reader.boolean("slot.drop.on.stop", false);
    let failover = reader.boolean("slot.failover", false);
    let recoveries = [("fail", SlotRecovery::Fail), ("snapshot", SlotRecovery::Snapshot)];
    let recovery = reader.choice("slot.recovery", &recoveries, SlotRecovery::default());
    let retry = slot_retry(reader);
    let stream_params = stream_params(reader);
    let xmin_interval = reader.millis("xmin.fetch.interval.ms", 0, Duration::ZERO);
    let xmin_interval = Some(xmin_interval).filter(|interval| !interval.is_zero());
    SlotOptions {
        name: slot_name(reader),
        drop_on_stop,
        failover,
        recovery,
        retry,
        stream_params,
        xmin_interval,
        peer: Peer::default(),
    }
}

fn slot_name(reader: &mut Reader<'_>) -> SlotName {
    let Some(setting) = reader.settings.get("slot.name") else { return SlotName::default() };
    SlotName::new(setting.value.trim()).unwrap_or_else(|error| {
        // The suggestion would show a secret value in another form.
        let like = if setting.secret { String::new() } else { format!(", such as {}", error.like()) };
        reader.invalid(setting, format!("PostgreSQL takes 1 to 63 of a-z, 0-9 and _ for a slot{like}"));
        SlotName::default()
    })
}

fn slot_retry(reader: &mut Reader<'_>) -> Option<SlotRetry> {
    let keys = ["slot.max.retries", "slot.retry.delay.ms"];
    let is_said = keys.iter().any(|key| reader.settings.get(key).is_some());
    is_said.then(|| SlotRetry {
        retries_max: reader.integer("slot.max.retries", 0..=i64::from(i32::MAX), 6),
        delay: reader.millis("slot.retry.delay.ms", 0, Duration::from_secs(10)),
    })
}

/// Parses `k=v;k=v`, and refuses the parameters that the decoder depends on.
fn stream_params(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let Some(setting) = reader.settings.get("slot.stream.params") else { return Vec::new() };
    let mut params = Vec::new();
    for item in setting.value.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("proto_version" | "publication_names" | "streaming" | "binary" | "messages", _)) => reader
                .invalid(
                    setting,
                    "proto_version, publication_names, streaming, binary and messages are set by outboxd",
                ),
            Some((name, value)) if !name.is_empty() => params.push((name.to_owned(), value.to_owned())),
            _ => reader.invalid(setting, "it must be name=value;name=value"),
        }
    }
    params
}

fn publication(reader: &mut Reader<'_>, alias: Option<&str>) -> PublicationOptions {
    let modes = [
        ("disabled", Autocreate::Disabled),
        ("all_tables", Autocreate::AllTables),
        ("filtered", Autocreate::Filtered),
        ("no_tables", Autocreate::NoTables),
    ];
    let said = reader.settings.get("publication.autocreate.mode").is_some();
    let updates_matter = alias.is_none_or(|alias| {
        reader.settings.get(&format!("transforms.{alias}.table.op.invalid.behavior")).is_some()
    });
    let default = if alias.is_some() { Autocreate::Filtered } else { Autocreate::AllTables };
    let autocreate = reader.choice("publication.autocreate.mode", &modes, default);
    let operations = match alias {
        None => published(reader),
        Some(_) if said || updates_matter => PublishedOperations::All,
        Some(_) => PublishedOperations::Inserts,
    };
    if !said && alias.is_some() {
        let inserts = if operations == PublishedOperations::Inserts { ", for inserts only" } else { "" };
        let text = format!("a publication that does not exist is made for the captured tables only{inserts}");
        reader.note_default("publication.autocreate.mode", text);
    }
    PublicationOptions {
        name: reader.filled("publication.name").unwrap_or("dbz_publication").to_owned(),
        autocreate,
        needed: if alias.is_some() { PublishedOperations::Inserts } else { kept(reader, "t") },
        operations,
        via_partition_root: reader.boolean("publish.via.partition.root", false),
        may_lack_tables: alias.is_none() && autocreate != Autocreate::Filtered,
    }
}

/// Returns the operations that a publication is created with. As in Debezium they include truncates, unless
/// `skipped.operations` lists them.
fn published(reader: &Reader<'_>) -> PublishedOperations {
    kept(reader, "")
}

/// Returns the operations that `skipped.operations` does not list; `default` replaces an unset list. Operations that are not
/// published need no replica identity, and do not advance `source.sequence`. Inserts are always included if there is a signalling
/// table.
fn kept(reader: &Reader<'_>, default: &str) -> PublishedOperations {
    let skipped = reader.text("skipped.operations").unwrap_or(default).to_ascii_lowercase();
    let skipped: Vec<_> = skipped.split(',').map(str::trim).collect();
    let has_signals = reader.filled("signal.data.collection").is_some();
    let operations = [("c", "insert"), ("u", "update"), ("d", "delete"), ("t", "truncate")];
    let is_kept = |name: &str| !skipped.contains(&name) || name == "c" && has_signals;
    let kept: Vec<_> = operations.iter().filter(|(name, _)| is_kept(name)).map(|(_, kept)| *kept).collect();
    match kept.len() {
        4 => PublishedOperations::All,
        _ => PublishedOperations::Listed(kept.join(", ")),
    }
}

fn guardrail(reader: &mut Reader<'_>) -> Option<Guardrail> {
    let actions = [("warn", false), ("fail", true)];
    let fails = reader.choice("guardrail.collections.limit.action", &actions, false);
    let tables_max = reader.integer("guardrail.collections.max", 0..=i64::from(i32::MAX), 0);
    (tables_max > 0).then_some(Guardrail { tables_max, fails })
}

fn identities(reader: &mut Reader<'_>) -> ReplicaIdentities {
    let Some(setting) = reader.settings.get("replica.identity.autoset.values") else {
        return ReplicaIdentities::default();
    };
    ReplicaIdentities::parse(&setting.value).unwrap_or_else(|error| {
        reader.invalid(setting, format!("{:?}: {}", error.value, error.reason));
        ReplicaIdentities::default()
    })
}

fn check_plugin(reader: &mut Reader<'_>) {
    match reader.filled("plugin.name") {
        Some("pgoutput") => {}
        Some(_) => {
            let named = reader.settings.get("plugin.name").map(ToString::to_string).unwrap_or_default();
            reader.assume("plugin.name", format!("pgoutput decodes the WAL, instead of {named}"));
        }
        None => {
            reader
                .note_default("plugin.name", "pgoutput decodes the WAL (Debezium's default is decoderbufs)");
        }
    }
}

/// Splits statements at semicolons; a double semicolon is a literal one.
fn statements(text: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == ';' && chars.next_if_eq(&';').is_none() {
            statements.push(String::new());
        } else if let Some(statement) = statements.last_mut() {
            statement.push(c);
        }
    }
    statements.iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn statements_are_split_at_single_semicolons() {
        let cases: [(&str, &[&str]); 4] = [
            ("", &[]),
            ("SET a = 1; SET b = 2;", &["SET a = 1", "SET b = 2"]),
            ("SET a = 'x;;y'", &["SET a = 'x;y'"]),
            (";", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(statements(text), expected, "{text}");
        }
    }
}

//! Tables whose changes are events: their configuration, and the warnings about them.

use std::path::Path;
use std::sync::Arc;

use super::args::InitArgs;
use super::error::InitError;
use super::found::name;
use super::given::Given;
use super::named::include_list;
use super::plan::{Plan, SlotBefore, What, Written, rows};
use super::proposal::{database_name, topic_prefix};
use super::role::role;
use super::topics::Topics;
use super::{objects, topics};
use crate::cli::prove::check::{Check, Identity, identities, topics_of_tables};
use crate::cli::run::assemble::assemble_sources;
use crate::cli::shell::steps::Step;
use crate::postgres::{Sql, TableFacts, TableFilter, TableOptions};
use crate::relay::{Capture, RelayParts};

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

/// The captured tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) all: Vec<TableFacts>,
    /// Warnings about keys and replica identities for their events.
    pub(super) warnings: Vec<Check>,
    /// True if a transform routes the records of some tables to other topics.
    pub(super) is_routed: bool,
}

/// Plans for an existing configuration, which captures the tables.
pub(super) async fn settled(
    args: &InitArgs,
    given: &Given,
    sql: &Sql,
    file: &Path,
    parts: Arc<RelayParts>,
) -> Result<Plan, InitError> {
    if let Some(option) = args.outbox_option() {
        return Err(InitError::ChangeEvents { path: file.to_owned(), option });
    }
    let captured = captured(sql, &parts).await?;
    if let Some(said) = &args.tables {
        let all = sql.tables().await?;
        let table_include = include_list(said, &all, &given.server.database)?;
        let options = TableOptions { table_include, ..TableOptions::default() };
        let named = TableFilter::new(&options).map_err(|error| InitError::Pattern(error.reason))?;
        let lacking =
            all.iter().filter(|table| table.root.is_none() && named.matches(&table.schema, &table.name));
        let lacking = lacking.filter(|table| !captured.iter().any(|known| known.oid == table.oid));
        let tables: Vec<_> = lacking.map(name).collect();
        if !tables.is_empty() {
            return Err(InitError::NotCaptured { path: file.to_owned(), tables });
        }
    }
    planned(args, given, sql, captured, parts, None).await
}

/// Plans without a configuration, for capturing these tables.
pub(super) async fn proposed(
    args: &InitArgs,
    given: &Given,
    sql: &Sql,
    said: &str,
) -> Result<Plan, InitError> {
    let database = given.server.database.as_str();
    let all = sql.tables().await?;
    let include = include_list(said, &all, database)?;
    let assemble = |proposed: &[(String, String)]| -> Result<_, InitError> {
        Ok(Arc::new(assemble_sources(&given.with(proposed))?.parts))
    };
    let mut proposed = settings(database, &include, false);
    let mut parts = assemble(&proposed)?;
    let captured = captured(sql, &parts).await?;
    if captured.iter().any(|table| table.partitioned) {
        proposed = settings(database, &include, true);
        parts = assemble(&proposed)?;
    }
    let written = given.written(proposed, args.kafka.as_deref());
    planned(args, given, sql, captured, parts, Some(written)).await
}

/// Finds the captured tables in the same way as `outboxd run`.
async fn captured(sql: &Sql, parts: &RelayParts) -> Result<Vec<TableFacts>, InitError> {
    let capture = Capture::find(sql, parts).await.map_err(|error| InitError::Relay(Box::new(error)))?;
    Ok(capture.tables)
}

async fn planned(
    args: &InitArgs,
    given: &Given,
    sql: &Sql,
    captured: Vec<TableFacts>,
    parts: Arc<RelayParts>,
    written: Written,
) -> Result<Plan, InitError> {
    let mut steps = role(sql, &given.role, &given.server.database, &captured).await?;
    let (tables, identities) = Tables::look(sql, &parts, captured).await?;
    steps.extend(identities);
    steps.extend(objects::publication(sql, &parts.postgres.publication, &tables.all).await?);
    let slot_step = objects::slot(sql, parts.postgres.slot.name.as_str()).await?;
    let slot = SlotBefore::of(&slot_step, args);
    steps.extend(args.create_slot.then_some(slot_step));
    let topics = match given.has_brokers {
        true => {
            topics::with_existing(&parts, tables.topics(sql, &parts).await?.into_iter().collect()).await?
        }
        false => Topics::default(),
    };
    let denied = |error: InitError| error.or_grant(&tables.all, &given.server.user);
    let rows = rows(sql, &tables.all).await.map_err(denied)?;
    Ok(Plan { parts, what: What::Tables(tables), rows, slot, steps, topics, written })
}

/// Returns the configuration that sends these tables, in the order in which it is written.
pub(super) fn settings(database: &str, include: &[String], any_partitioned: bool) -> Vec<(String, String)> {
    let name = database_name(database, "changes");
    let include = include.join(",");
    let prefix = topic_prefix(database);
    let via_root = any_partitioned.then_some(("publish.via.partition.root", "true"));
    let first = [
        ("name", name.as_str()),
        ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
        ("plugin.name", "pgoutput"),
        ("topic.prefix", &prefix),
        ("slot.name", &name),
        ("publication.name", &name),
        ("publication.autocreate.mode", "filtered"),
        ("table.include.list", &include),
    ];
    let converters = [
        ("key.converter", JSON),
        ("key.converter.schemas.enable", "false"),
        ("value.converter", JSON),
        ("value.converter.schemas.enable", "false"),
    ];
    let all = first.into_iter().chain(via_root).chain(converters);
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl Tables {
    /// Checks the tables; also returns the steps that must come before a publication of updates.
    async fn look(
        sql: &Sql,
        parts: &RelayParts,
        all: Vec<TableFacts>,
    ) -> Result<(Self, Vec<Step>), InitError> {
        let changes = parts.route.changes();
        let checks = |identity: &Identity| changes.map_or_else(Vec::new, |changes| identity.checks(changes));
        let rules = &parts.postgres.tables.identities;
        let (mut warnings, mut steps) = (Vec::new(), Vec::new());
        for identity in identities(sql, &all).await? {
            let (identity, set) = identity.set_by(rules);
            warnings.extend(set);
            match step(&identity) {
                Some(step) => {
                    steps.push(step);
                    warnings.extend(checks(&identity.with_full()));
                }
                None => warnings.extend(checks(&identity)),
            }
        }
        let is_routed = changes.is_some_and(|changes| {
            changes.renaming_transform().is_some() || changes.event_routers().next().is_some()
        });
        Ok((Self { all, warnings, is_routed }, steps))
    }

    /// Returns the topics of the tables, except where a transform sets the topic of each record.
    async fn topics(&self, sql: &Sql, parts: &RelayParts) -> Result<Vec<String>, InitError> {
        let Some(changes) = parts.route.changes() else { return Ok(Vec::new()) };
        let mut described = Vec::new();
        for table in &self.all {
            described.push((table.clone(), sql.describe(table.oid).await?));
        }
        Ok(topics_of_tables(changes, &described, parts.postgres.publication.via_partition_root))
    }
}

/// Returns the step without which PostgreSQL would refuse the application's updates as soon as the
/// publication exists.
fn step(identity: &Identity) -> Option<Step> {
    let (statement, undo) = identity.lets_updates()?;
    Some(Step::new(format!("updates and deletes of {} stay possible", identity.shown()), statement, undo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_configuration_has_the_necessary_keys() {
        let include = ["public.orders".to_owned(), "public.lines".to_owned()];
        let said = settings("Shop DB", &include, false);
        let value = |key: &str| said.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        assert_eq!(value("slot.name"), Some("shop_db_changes"));
        assert_eq!(value("topic.prefix"), Some("Shop_DB"));
        assert_eq!(value("table.include.list"), Some("public.orders,public.lines"));
        assert_eq!(value("publish.via.partition.root"), None);
        assert!(settings("shop", &include, true).iter().any(|(key, _)| key == "publish.via.partition.root"));
    }
}

//! Probe of which part of a table's records is the row, with a row of nulls.

use std::collections::{HashMap, HashSet};

use super::render::{Rendered, Renderer, context};
use crate::change::{ChangeEvents, ChangeTable, RowChange, Snapshot};
use crate::cli::prove::verify::error::VerifyError;
use crate::connect::column::ColumnDescription;
use crate::pgoutput::{ColumnValue, OldTuple};
use crate::postgres::{Sql, TableFacts};
use crate::relay::relation_of;
use crate::verification::{FieldDigest, Fields, read};
use crate::wal::Oid;

/// A table, and what is known of its records.
pub(super) struct Table {
    pub(super) facts: TableFacts,
    pub(super) bound: ChangeTable,
    /// The columns of a row that are the table's own; others follow.
    pub(super) columns: usize,
    /// The topic of its records.
    pub(super) topic: String,
    /// The fields that are no part of a row: they differ from record to record.
    pub(super) volatile: HashSet<u32>,
    /// Placeholders for values that the server does not send.
    pub(super) placeholders: Fields,
    /// A row that is older than all columns.
    pub(super) unset: Fields,
    /// The names of the fields that are compared.
    pub(super) names: Vec<(u32, String)>,
    /// True if a delete becomes a record that marks it.
    pub(super) tells_deletes: bool,
    select: String,
}

/// A captured table as it is in the catalog.
pub(super) struct Captured {
    pub(super) facts: TableFacts,
    pub(super) columns: Vec<ColumnDescription>,
    pub(super) bound: ChangeTable,
}

impl Captured {
    pub(super) async fn describe(
        changes: &ChangeEvents,
        sql: &Sql,
        facts: TableFacts,
    ) -> Result<Self, VerifyError> {
        let columns = sql.describe(facts.oid).await?;
        let bound = changes.bind(&relation_of(&facts, &columns), &columns);
        Ok(Self { bound: bound.fit().map_err(crate::relay::Error::from)?, facts, columns })
    }

    /// Returns whether its rows reach an EventRouter, judged by a row of nulls.
    pub(super) fn is_outbox(&self) -> bool {
        let nulls = vec![ColumnValue::Null; self.columns.len()];
        // A row on which a transform fails is reported when the table is probed.
        self.bound.routes(&nulls, &context(1, Snapshot::False)).unwrap_or_default()
    }
}

/// The columns of a table that may be stored outside of it: what an update leaves alone of them is not sent.
const TOASTED: &str = "select attname::text from pg_attribute where attrelid = $1 and attnum > 0 \
                       and not attisdropped and attstorage <> 'p'";

/// Query of the columns that were added with a default without rewriting the rows, and that default. It is an
/// array of one value.
const MISSING: &str = "select attname::text, (attmissingval::text::text[])[1] from pg_attribute \
                       where attrelid = $1 and attnum > 0 and not attisdropped and atthasmissing";

impl Table {
    /// Makes records of a row of nulls, in all ways in which records differ.
    pub(super) async fn probe(
        changes: &ChangeEvents,
        sql: &Sql,
        Captured { facts, columns, bound }: Captured,
        renderer: &mut Renderer<'_>,
    ) -> Result<Self, VerifyError> {
        let toasted = toasted(sql, facts.oid, &columns).await?;
        let nulls = vec![ColumnValue::Null; columns.len()];
        let old = OldTuple::Full(nulls.iter().copied().collect());
        let unsent: Vec<_> = toasted
            .into_iter()
            .map(|is_toasted| if is_toasted { ColumnValue::UnchangedToast } else { ColumnValue::Null })
            .collect();
        let ways = [
            (RowChange::Insert(&nulls), context(1, Snapshot::False)),
            (RowChange::Insert(&nulls), context(2, Snapshot::True)),
            (RowChange::Update(None, &nulls), context(3, Snapshot::False)),
            (RowChange::Update(Some((&old).into()), &nulls), context(4, Snapshot::False)),
            (RowChange::Insert(&unsent), context(1, Snapshot::False)),
        ];
        let mut seen = Vec::new();
        for (change, at) in ways {
            let rendered =
                renderer.render(&bound, change, &at).await?.map_err(|source| unfit(&bound, source))?;
            seen.push(rendered);
        }
        let missing = missing(sql, facts.oid, &columns).await?;
        let values: Vec<_> = missing.iter().map(|value| text_or_null(value.as_deref())).collect();
        let unset = renderer.render(&bound, RowChange::Insert(&values), &context(6, Snapshot::False)).await?;
        let unset = unset.ok().and_then(|records| fields(records.last()?)).unwrap_or_default();
        let delete = RowChange::Delete((&old).into());
        let deleted = renderer.render(&bound, delete, &context(5, Snapshot::False)).await?;
        let judged = Judged::of(seen).map_err(|problem| reshaped(changes, &bound, problem))?;
        let Judged { topic, volatile, placeholders, names } = judged;
        let tells_deletes = deleted.is_ok_and(|records| tells_delete(&records));
        let select = select(&facts, &columns);
        Ok(Self {
            columns: columns.len(),
            facts,
            bound,
            topic,
            volatile,
            placeholders,
            unset,
            names,
            tells_deletes,
            select,
        })
    }

    /// Returns the statement that reads its rows.
    pub(super) fn select(&self) -> &str {
        &self.select
    }
}

/// Result of probing a table's records.
struct Judged {
    topic: String,
    volatile: HashSet<u32>,
    placeholders: Fields,
    names: Vec<(u32, String)>,
}

impl Judged {
    /// Judges the records, of which the last are those without the values that are not sent. One that changes
    /// nothing may make no record.
    fn of(mut seen: Vec<Vec<Rendered>>) -> Result<Self, &'static str> {
        let unsent = seen.pop().unwrap_or_default();
        let all: Vec<&Rendered> = seen
            .iter()
            .enumerate()
            .filter_map(|(way, records)| match records.as_slice() {
                [] if way + 1 == seen.len() => None,
                records => Some(records.last()),
            })
            .collect::<Option<_>>()
            .ok_or("leave records out")?;
        let first = all.first().copied().ok_or("leave records out")?;
        if all.iter().any(|other| other.topic != first.topic) {
            return Err("do not send all records of a row to the same topic");
        }
        if all.iter().any(|other| other.key_text != first.key_text) {
            return Err("do not give all records of a row the same key");
        }
        let rows: Vec<Fields> =
            all.iter().map(|record| fields(record)).collect::<Option<_>>().ok_or(NO_FIELDS)?;
        let same = rows.first().cloned().unwrap_or_default();
        let volatile: HashSet<u32> = rows
            .iter()
            .flat_map(|row| &row.0)
            .filter(|field| rows.iter().any(|row| row.get(field.name) != Some(field.value)))
            .map(|field| field.name)
            .collect();
        let names: Vec<_> = names(first).into_iter().filter(|(name, _)| !volatile.contains(name)).collect();
        if names.is_empty() {
            return Err("leave nothing of a row that is the same each time");
        }
        let unsent = unsent.last().and_then(fields).unwrap_or_default().0.into_iter();
        let placeholders = unsent.filter(|field| same.get(field.name) != Some(field.value)).collect();
        Ok(Self { topic: first.topic.clone(), volatile, placeholders: Fields(placeholders), names })
    }
}

const NO_FIELDS: &str = "make no values with fields";

fn fields(record: &Rendered) -> Option<Fields> {
    read(record.value.as_deref()?)?.digests(|_| false)
}

fn names(record: &Rendered) -> Vec<(u32, String)> {
    let row = record.value.as_deref().and_then(read).and_then(|read| read.row).unwrap_or_default();
    row.into_iter().map(|(name, _)| (FieldDigest::name(&name), name.into_owned())).collect()
}

/// Returns whether the last of a delete's records marks the row as gone.
fn tells_delete(records: &[Rendered]) -> bool {
    records.last().is_some_and(|record| match record.value.as_deref() {
        None => true,
        Some(value) => read(value).is_some_and(|read| read.row.is_none()),
    })
}

/// Reads its rows; `tableoid` and `ctid` follow the table's own columns.
pub(super) fn select(facts: &TableFacts, columns: &[ColumnDescription]) -> String {
    let quote = postgres_protocol::escape::escape_identifier;
    let own = columns.iter().map(|column| quote(&column.name));
    let all: Vec<_> =
        own.chain(["tableoid::pg_catalog.text", "ctid::pg_catalog.text"].map(str::to_owned)).collect();
    format!("SELECT {} FROM {}", all.join(", "), facts.quoted())
}

async fn toasted(sql: &Sql, oid: Oid, columns: &[ColumnDescription]) -> Result<Vec<bool>, VerifyError> {
    let rows = sql.query("asking how columns are stored", TOASTED, &[&oid.0]).await?;
    let names: HashSet<String> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
    Ok(columns.iter().map(|column| names.contains(&column.name)).collect())
}

/// Returns what PostgreSQL reads for columns that a row is too old to have, as its types write it.
async fn missing(
    sql: &Sql,
    oid: Oid,
    columns: &[ColumnDescription],
) -> Result<Vec<Option<String>>, VerifyError> {
    let rows = sql.query("asking what older rows have", MISSING, &[&oid.0]).await?;
    let of_row = |row: &tokio_postgres::Row| Some((row.try_get(0).ok()?, row.try_get(1).ok()?));
    let mut values: HashMap<String, String> = rows.iter().filter_map(of_row).collect();
    Ok(columns.iter().map(|column| values.remove(&column.name)).collect())
}

fn text_or_null(value: Option<&str>) -> ColumnValue<'_> {
    value.map_or(ColumnValue::Null, |text| ColumnValue::Text(text.as_bytes()))
}

fn unfit(table: &ChangeTable, source: crate::outbox::RouteError) -> VerifyError {
    VerifyError::NoRecord { table: table.name().to_owned(), source: Box::new(source) }
}

pub(super) fn reshaped(changes: &ChangeEvents, table: &ChangeTable, problem: &'static str) -> VerifyError {
    let transforms: Vec<_> = changes.transforms().map(|(name, class)| format!("{name} ({class})")).collect();
    VerifyError::Reshaped { table: table.name().to_owned(), problem, transforms: transforms.join(", ") }
}

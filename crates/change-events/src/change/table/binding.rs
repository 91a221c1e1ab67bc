//! Schemas and column codecs of a table.

use std::borrow::Cow;
use std::sync::Arc;

use super::key::KeyColumns;
use super::labels::Labels;
use super::reselect::Selection;
use super::routed::RoutedTables;
use super::{AddedField, BoundColumn, ChangeTable, Key};
use super::{placeholder, zero};
use crate::change::envelope::source::Source;
use crate::change::events::Connector;
use crate::outbox::check_topic_name;
use connect_data::column::{ColumnCodec, ColumnDescription};
use connect_data::converter::FieldLabel;
use connect_data::{Field, Kind, Schema};
use pg_replication::pgoutput::{Column, Relation, ReplicaIdentity};

/// Builds the schemas and column codecs of a table, from its relation message and the catalog's description
/// of its columns.
pub(in crate::change) fn bind(
    connector: Arc<Connector>,
    relation: &Relation,
    descriptions: &[ColumnDescription],
) -> ChangeTable {
    let mut described: Vec<_> =
        relation.columns.iter().map(|column| describe(column, descriptions)).collect();
    let is_gone = descriptions.is_empty();
    if is_gone {
        take_identity_for_key(relation, &mut described);
    }
    let topic = connector.context.source_topic(&relation.schema, &relation.table);
    let (columns, mut notes) = columns(&connector, relation, &described);
    let key = key(&connector, relation, &described, &topic, &mut notes);
    notes.extend(keyless(relation).filter(|_| is_gone && key.is_none()));
    notes.extend(connector.options.keys.missing(&relation.schema, &relation.table, &described));
    let fields = fields(&columns);
    let row = Arc::new(schema(&connector, fields, &format!("{topic}.Value")).optional(true));
    let envelope = envelope(&connector, &row, &topic);
    let source = Source {
        version: connector.options.version.clone(),
        name: connector.context.topic_prefix.clone(),
        database: connector.database.clone(),
        schema: relation.schema.clone(),
        table: relation.table.clone(),
    };
    let name = format!("{}.{}", relation.schema, relation.table);
    let takes_fields = connector.context_bytes.is_some()
        && connector.converters.value.takes_fields(&envelope)
        && key.as_ref().is_none_or(|key| connector.converters.key.takes_fields(&key.schema));
    let renamed =
        connector.chain.renamed(&topic).filter(|name| *name == topic || check_topic_name(name).is_ok());
    let direct_to = renamed.filter(|_| takes_fields);
    let envelope = Arc::new(envelope);
    let routed = RoutedTables::bind(&connector, relation, descriptions);
    let key_columns = key.as_ref().map(|key| key.columns.as_slice());
    let selection = Selection::bind(&connector, relation, &described, &columns, key_columns);
    ChangeTable {
        name,
        topic,
        columns,
        identity: identity(&described, key.as_ref()),
        key,
        row,
        envelope,
        source,
        notes,
        direct_to,
        routed,
        selection,
        connector,
    }
}

/// Returns the positions of the columns that identify a row: the primary key, or without one the record's key.
fn identity(described: &[ColumnDescription], key: Option<&Key>) -> Vec<usize> {
    let primary = KeyColumns::default().of("", "", described);
    let of_record = || key.iter().flat_map(|key| &key.columns).map(|column| column.index).collect();
    if primary.is_empty() { of_record() } else { primary }
}

/// Describes a column with the type modifier of the relation message, and with the catalog's present
/// description of the rest.
fn describe(column: &Column, descriptions: &[ColumnDescription]) -> ColumnDescription {
    let known =
        descriptions.iter().find(|known| known.name == column.name && known.type_oid == column.type_oid);
    match known {
        Some(known) => ColumnDescription { type_modifier: column.type_modifier, ..known.clone() },
        None => ColumnDescription::from_pgoutput(column),
    }
}

/// Makes the columns of the replica identity the key, for a table that is no longer in the catalog. The
/// replica identity is the primary key, unless `ALTER TABLE … REPLICA IDENTITY` has chosen another index.
fn take_identity_for_key(relation: &Relation, described: &mut [ColumnDescription]) {
    if relation.replica_identity == ReplicaIdentity::Full {
        return;
    }
    let identity = relation.columns.iter().zip(described).filter(|(column, _)| column.in_identity);
    for ((_, described), position) in identity.zip(1..) {
        described.key_position = Some(position);
    }
}

/// Returns the note that the records of a dropped table have no key. A table without columns in its replica
/// identity had no key before either.
fn keyless(relation: &Relation) -> Option<String> {
    let Relation { schema, table, replica_identity, .. } = relation;
    let identity = match replica_identity {
        ReplicaIdentity::Full => "FULL",
        ReplicaIdentity::Nothing => "NOTHING",
        ReplicaIdentity::Default | ReplicaIdentity::Index => return None,
    };
    Some(format!(
        "records of table {schema}.{table} have no key: it was dropped before its rows were read, and its replica identity was {identity}, \
         which does not contain the key. If it had one, start once with -X message.key.columns={schema}.{table}:COLUMN,COLUMN"
    ))
}

/// Returns the columns that events show, and a note for each column whose type has no codec.
fn columns(
    connector: &Connector,
    relation: &Relation,
    described: &[ColumnDescription],
) -> (Vec<BoundColumn>, Vec<String>) {
    let mut notes = Vec::new();
    let table = format!("{}.{}", relation.schema, relation.table);
    let rules = &connector.context.rules;
    let shown = described.iter().enumerate().filter(|(_, column)| is_shown(connector, &table, column));
    let mut columns = Vec::new();
    for (index, column) in shown {
        let mapper = rules.mapper(&table, column);
        match ColumnCodec::new(column, &connector.context.columns, mapper) {
            Ok(codec) => columns.push(bound(connector, index, column, codec)),
            Err(unsupported) => notes.push(format!(
                "column \"{}\" of table {table} is in no event: {unsupported}; include.unknown.datatypes=true shows it as bytes",
                column.name
            )),
        }
    }
    (columns, notes)
}

/// Reports whether the include and exclude lists for columns retain a column of the table.
fn is_shown(connector: &Connector, table: &str, column: &ColumnDescription) -> bool {
    connector.context.rules.filter.leaves_out(table, &column.name).is_none()
}

/// Builds the key of the table's records. The key contains its columns even where a list for columns excludes
/// or changes them.
fn key(
    connector: &Connector,
    relation: &Relation,
    described: &[ColumnDescription],
    topic: &str,
    notes: &mut Vec<String>,
) -> Option<Key> {
    let table = format!("{}.{}", relation.schema, relation.table);
    let positions = connector.options.keys.of(&relation.schema, &relation.table, described);
    let is_without = positions.is_empty();
    let columns: Vec<_> = positions
        .into_iter()
        .filter_map(|index| {
            let column = described.get(index)?;
            // Debezium describes an excluded column by its type alone.
            let unknown = ColumnDescription { not_null: false, default: None, ..column.clone() };
            let column = if is_shown(connector, &table, column) { column } else { &unknown };
            match ColumnCodec::new(column, &connector.context.columns, None) {
                Ok(codec) => Some(bound(connector, index, column, codec)),
                Err(unsupported) => {
                    notes.push(format!(
                        "column \"{}\" of table {table} is not in the key, so rows that differ in it alone share one: {unsupported}; \
                         include.unknown.datatypes=true shows it as bytes",
                        column.name
                    ));
                    None
                }
            }
        })
        .collect();
    let added = connector.context.key_field(&relation.schema, &relation.table);
    // A key whose columns have no codec has no fields, but is a key, as in Debezium.
    if is_without && added.is_none() {
        return None;
    }
    let mut fields = fields(&columns);
    let added = added.map(|(name, content)| {
        let schema = Arc::clone(&connector.text);
        fields.push(Field::new(name, Arc::clone(&schema)));
        AddedField { label: FieldLabel::new(name), schema, content }
    });
    let schema = schema(connector, fields, &format!("{topic}.Key"));
    Some(Key { schema: Arc::new(schema), columns, added })
}

fn bound(connector: &Connector, index: usize, column: &ColumnDescription, codec: ColumnCodec) -> BoundColumn {
    let field = connector.context.field_names.field_name(&column.name).into_owned();
    let zero = zero::of(&codec, column, &connector.context.columns);
    let placeholder =
        placeholder::of(&codec, connector.context.columns.binary, &connector.options.placeholder);
    let label = FieldLabel::new(&field);
    let labels = Labels::of(&column.kind);
    BoundColumn { index, name: column.name.clone(), field, label, codec, zero, placeholder, labels }
}

fn fields(columns: &[BoundColumn]) -> Vec<Field> {
    columns.iter().map(|column| Field::new(&column.field, Arc::clone(column.codec.schema()))).collect()
}

fn schema(connector: &Connector, fields: Vec<Field>, name: &str) -> Schema {
    let name = connector.context.schema_names.schema_name(name).into_owned();
    Schema { name: Some(Cow::Owned(name)), ..Schema::new(Kind::Struct(fields)) }
}

fn envelope(connector: &Connector, row: &Arc<Schema>, topic: &str) -> Schema {
    let fields = connector.shape.fields(row);
    Schema { version: Some(2), ..schema(connector, fields, &format!("{topic}.Envelope")) }
}

//! Search for a table's columns.

use std::sync::Arc;

use super::envelope::Envelope;
use super::placement::{AdditionalField, Placement};
use super::spans::RowTracing;
use super::timestamp::{EventTimestamp, TimestampKind};
use super::unmasked::Unmasked;
use super::{BoundColumn, NamedColumn, OutboxTable};
use crate::outbox::error::{BindError, BindProblem};
use crate::outbox::options::{AdditionalMissing, MappedColumn};
use crate::outbox::router::{Assumption, NamedConverter, Router};
use connect_data::column::{ColumnCodec, ColumnDescription, TypeKind};
use connect_data::trace::SpanRules;
use connect_data::{Kind, Schema};
use pg_replication::pgoutput::Relation;

const PLACEMENT: &str = "table.fields.additional.placement";
const TIMESTAMP: &str = "table.field.event.timestamp";
const VERSION: &str = "table.field.event.schema.version";
/// Default columns of Debezium, each with the name that replaces it in tables written in snake case.
const TWINS: &[(&str, &str)] =
    &[("aggregateid", "aggregate_id"), ("aggregatetype", "aggregate_type"), ("type", "event_type")];

/// Returns the snake-case twin of one of Debezium's default columns.
pub(in crate::outbox) fn twin_of(column: &str) -> Option<&'static str> {
    TWINS.iter().find(|(default, _)| *default == column).map(|(_, twin)| *twin)
}

/// Search for a table's columns, which collects all problems.
pub(in crate::outbox) struct Binding {
    router: Arc<Router>,
    table: String,
    /// The prefix of the names of value schemas, see [`OutboxTable`].
    source_topic: String,
    /// All columns of the table, in their order.
    columns: Vec<ColumnDescription>,
    /// The names of their fields; an error for a column that a list excludes.
    fields: Vec<Result<String, Excluded>>,
    problems: Vec<BindProblem>,
    assumptions: Vec<Assumption>,
    unmasked: Vec<Unmasked>,
}

/// A column that the user's lists exclude.
struct Excluded {
    column: String,
    /// The option of the list.
    by: &'static str,
}

/// The columns of `table.fields.additional.placement`, by placement.
#[derive(Default)]
struct Placed {
    headers: Vec<NamedColumn>,
    envelope: Vec<NamedColumn>,
    partition: Option<BoundColumn>,
}

impl Binding {
    pub(in crate::outbox) fn new(
        router: Arc<Router>,
        relation: &Relation,
        descriptions: &[ColumnDescription],
    ) -> Self {
        let describe = |column: &pg_replication::pgoutput::Column| {
            let known = descriptions
                .iter()
                .find(|known| known.name == column.name && known.type_oid == column.type_oid);
            match known {
                // The type modifier is that of the relation message, the rest is the catalog's present
                // description.
                Some(known) => ColumnDescription { type_modifier: column.type_modifier, ..known.clone() },
                None => ColumnDescription::from_pgoutput(column),
            }
        };
        let table = format!("{}.{}", relation.schema, relation.table);
        let source_topic = router.context.source_topic(&relation.schema, &relation.table);
        let field = |column: &pg_replication::pgoutput::Column| {
            let name = router.context.field_names.field_name(&column.name).into_owned();
            match router.context.rules.filter.leaves_out(&table, &column.name) {
                Some(by) => Err(Excluded { column: name, by }),
                None => Ok(name),
            }
        };
        Self {
            fields: relation.columns.iter().map(field).collect(),
            source_topic,
            columns: relation.columns.iter().map(describe).collect(),
            router,
            table,
            problems: Vec::new(),
            assumptions: Vec::new(),
            unmasked: Vec::new(),
        }
    }

    pub(in crate::outbox) fn finish(mut self) -> Result<OutboxTable, BindError> {
        let router = Arc::clone(&self.router);
        let options = &router.options;
        let id = self.mapped(&options.event_id, Some(router.header_converter()));
        let key = self.mapped(&options.event_key, Some(router.key_converter()));
        let payload = self.payload();
        let route = self.mapped(&options.route_by, None);
        self.require(route.as_ref(), options.route_by.option, &[Kind::String]);
        let timestamp = options.event_timestamp.as_deref().and_then(|column| self.timestamp(column));
        let version = options.schema_version.as_deref().and_then(|column| self.named(VERSION, column));
        self.require(version.as_ref(), VERSION, &[Kind::Int16, Kind::Int32]);
        let Placed { headers, envelope, partition } = self.additional();
        let tracing = self.tracing();

        let (Some(id), Some(key), Some(payload), Some(route), true) =
            (id, key, payload, route, self.problems.is_empty())
        else {
            let prefix = router.context.option_prefix.clone();
            return Err(BindError { prefix, table: self.table, problems: self.problems });
        };
        // If its other columns are missing, the envelope contains the payload alone.
        let envelope = router.options.is_enveloped().then(|| Envelope::new(&payload, envelope));
        let schema_prefix = router.context.schema_names.schema_name(&self.source_topic).into_owned();
        Ok(OutboxTable {
            router,
            table: self.table,
            schema_prefix,
            id,
            key,
            payload,
            route,
            timestamp,
            version,
            headers,
            envelope,
            partition,
            tracing,
            assumptions: self.assumptions,
            unmasked: self.unmasked,
        })
    }

    /// Finds the payload's column. Its converter must accept the payload itself, unless the value is an
    /// envelope.
    fn payload(&mut self) -> Option<BoundColumn> {
        let router = Arc::clone(&self.router);
        let enveloped = router.options.is_enveloped();
        let value = router.value_converter();
        let payload = self.mapped(&router.options.payload, (!enveloped).then_some(value))?;
        if enveloped {
            let envelope = Schema::new(Kind::Struct(Vec::new()));
            self.accept(router.options.payload.option, &payload.name, value, &envelope);
        }
        Some(payload)
    }

    /// Finds the column of the span context. Without the column, rows have no context.
    fn tracing(&mut self) -> Option<RowTracing> {
        let router = Arc::clone(&self.router);
        let (rules, tracer) = (&router.options.spans, router.options.tracer.as_ref()?);
        let column = match self.position(&rules.field) {
            Some(_) => self.named(SpanRules::FIELD, &rules.field),
            None => None,
        };
        self.require(column.as_ref(), SpanRules::FIELD, &[Kind::String]);
        Some(RowTracing::new(tracer.clone(), rules.clone(), &self.table, column))
    }

    fn additional(&mut self) -> Placed {
        let router = Arc::clone(&self.router);
        let mut placed = Placed::default();
        for field in &router.options.additional {
            let Some(column) = self.placed(field) else { continue };
            let name = field.alias.clone();
            match field.placement {
                Placement::Header => {
                    self.accept(PLACEMENT, &column.name, router.header_converter(), column.codec.schema());
                    placed.headers.push(NamedColumn { name, column });
                }
                Placement::Envelope => placed.envelope.push(NamedColumn { name, column }),
                Placement::Partition => {
                    self.require(Some(&column), PLACEMENT, &[Kind::Int16, Kind::Int32, Kind::Int64]);
                    placed.partition = Some(column);
                }
            }
        }
        placed
    }

    /// Finds the column of an additional field. Here too, the twins replace Debezium's default columns.
    fn placed(&mut self, field: &AdditionalField) -> Option<BoundColumn> {
        if self.position(&field.column).is_none() {
            if let Some(twin) = self.twin(PLACEMENT, &field.column) {
                return self.named(PLACEMENT, twin);
            }
            if self.router.options.additional_missing == AdditionalMissing::Ignore {
                return None;
            }
        }
        self.named(PLACEMENT, &field.column)
    }

    fn timestamp(&mut self, column: &str) -> Option<EventTimestamp> {
        let column = self.named(TIMESTAMP, column)?;
        let description = self.columns.get(column.index)?;
        let kind = match description.kind.underlying() {
            TypeKind::Base { name } if name == "timestamp" => TimestampKind::Timestamp,
            TypeKind::Base { name } if name == "timestamptz" => TimestampKind::TimestampTz,
            TypeKind::Base { name } if name == "int8" => TimestampKind::EpochMillis,
            other => {
                let reason = format!(
                    "it is of type {}; a timestamp, a timestamptz or a bigint with milliseconds is needed",
                    other.name()
                );
                self.unsuitable(TIMESTAMP, &column.name, reason);
                return None;
            }
        };
        Some(EventTimestamp { column, kind })
    }

    /// Finds the column that an option names, or the twin of its default.
    fn mapped(
        &mut self,
        mapped: &MappedColumn,
        converter: Option<NamedConverter<'_>>,
    ) -> Option<BoundColumn> {
        let twin = if mapped.explicit || self.position(&mapped.column).is_some() {
            None
        } else {
            self.twin(mapped.option, &mapped.column)
        };
        let column = self.named(mapped.option, twin.unwrap_or(&mapped.column))?;
        if let Some(converter) = converter {
            self.accept(mapped.option, &column.name, converter, column.codec.schema());
        }
        Some(column)
    }

    fn twin(&mut self, option: &'static str, column: &str) -> Option<&'static str> {
        let twin = twin_of(column)?;
        self.position(twin)?;
        let assumption = Assumption {
            table: self.table.clone(),
            option,
            absent: column.to_owned(),
            used: twin.to_owned(),
        };
        if !self.assumptions.contains(&assumption) {
            self.assumptions.push(assumption);
        }
        Some(twin)
    }

    fn named(&mut self, option: &'static str, name: &str) -> Option<BoundColumn> {
        let Some(index) = self.position(name) else {
            self.problems.push(self.missing(option, name));
            return None;
        };
        let column = self.columns.get(index)?;
        let context = &self.router.context;
        let mapper = context.rules.mapper(&self.table, column);
        match ColumnCodec::new(column, &context.columns, mapper) {
            Ok(codec) => {
                let table = &self.table;
                let unmasked =
                    Unmasked::of(table, name, &codec, mapper).filter(|it| !self.unmasked.contains(it));
                self.unmasked.extend(unmasked);
                Some(BoundColumn { index, name: name.to_owned(), codec })
            }
            Err(unsupported) => {
                self.unsuitable(option, name, unsupported.to_string());
                None
            }
        }
    }

    fn missing(&self, option: &'static str, name: &str) -> BindProblem {
        let column = name.to_owned();
        match self.fields.iter().filter_map(|field| field.as_ref().err()).find(|left| left.column == name) {
            Some(Excluded { by, .. }) => BindProblem::Excluded { option, column, by },
            None => BindProblem::Missing { option, column, nearest: self.nearest(name) },
        }
    }

    fn accept(
        &mut self,
        option: &'static str,
        column: &str,
        NamedConverter { option: key, converter }: NamedConverter<'_>,
        schema: &Schema,
    ) {
        if let Err(refused) = converter.accepts(schema)
            && self.router.is_last
        {
            self.unsuitable(option, column, format!("{key}: {refused}"));
        }
    }

    fn require(&mut self, column: Option<&BoundColumn>, option: &'static str, kinds: &[Kind]) {
        let Some(column) = column else { return };
        let kind = &column.codec.schema().kind;
        if !kinds.contains(kind) {
            let wanted: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            let reason = format!(
                "it is of type {} ({kind}); {} is needed",
                column.codec.type_name(),
                wanted.join(" or ")
            );
            self.unsuitable(option, &column.name, reason);
        }
    }

    fn unsuitable(&mut self, option: &'static str, column: &str, reason: String) {
        self.problems.push(BindProblem::Unsuitable { option, column: column.to_owned(), reason });
    }

    /// Returns the position of a field's column in the row.
    fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.as_ref().is_ok_and(|field| field == name))
    }

    fn nearest(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> =
            self.fields.iter().filter_map(|field| field.as_ref().ok().cloned()).collect();
        names.sort_by_cached_key(|known| strsim::damerau_levenshtein(known, name));
        names
    }
}

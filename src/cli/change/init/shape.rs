//! Recognition of an outbox, and of the meaning of its columns, by the columns. Sans-io.

use super::mark::Mark;
use crate::cli::shell::marks::plain;

/// Table of the shapes that are known by name.
const PRESETS: &str = include_str!("presets.tsv");

/// Route of a column that contains the topic itself.
const AS_IT_IS: &str = "${routedByValue}";

const ID: &[&str] = &["eventid", "messageid", "eventuuid", "identifier", "uuid", "id"];
const KEY: &[&str] = &[
    "aggregateid",
    "aggregateidentifier",
    "aggregaterootid",
    "entityid",
    "streamid",
    "streamname",
    "messagekey",
    "eventkey",
    "partitionkey",
    "orderingkey",
    "key",
    "resourceid",
    "messageableid",
    "correlationid",
];
const TOPIC: &[&str] =
    &["topic", "topicname", "destination", "destinationtopic", "exchange", "channel", "queue"];
const AGGREGATE: &[&str] = &[
    "aggregatetype",
    "aggregate",
    "aggregatename",
    "entitytype",
    "streamtype",
    "resourceclass",
    "messageabletype",
];
const TYPE: &[&str] = &["eventtype", "eventname", "messagetype", "type", "event"];
const PAYLOAD: &[&str] =
    &["payload", "body", "serializedevent", "eventdata", "messagebody", "content", "data", "message"];
/// Number of the first names of [`KEY`] that occur only in tables of events.
const TELLING_KEYS: usize = 5;

/// A column: its name, and the name of its type in the catalog (empty while that is not known).
pub(in crate::cli) type Named = (String, String);

/// Meaning of an outbox's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Name of the known shape; `columns` when it is none of them.
    pub(super) preset: String,
    pub(super) id: String,
    pub(super) key: String,
    /// Column that determines the topic.
    pub(super) route: String,
    pub(super) event_type: Option<String>,
    pub(super) payload: String,
    /// `route.topic.regex` and `route.topic.replacement`, where Debezium's defaults do not fit.
    pub(super) regex: Option<String>,
    pub(super) replacement: Option<String>,
    /// `table.fields.additional.placement`.
    pub(super) placement: Vec<String>,
    /// Columns in which a polling relay may mark its rows, the likeliest first.
    pub(super) marks: Vec<Mark>,
}

impl Shape {
    /// Returns the shape of a table of this name and these columns; `preset` is the one that the user names.
    pub(super) fn of(table: &str, columns: &[Named], preset: Option<&str>) -> Option<Self> {
        let columns = Columns(columns);
        let mut rows = rows();
        let known =
            rows.find(|row| preset.is_none_or(|wanted| wanted == row.name()) && row.is_there(&columns));
        match known {
            Some(row) => row.shape(&columns),
            None if preset.is_none() => by_columns(table, &columns),
            None => None,
        }
    }

    /// Returns the names of the known shapes.
    pub(super) fn names() -> Vec<&'static str> {
        rows().map(|row| row.name()).collect()
    }

    /// Returns the topic of records.
    pub(super) fn topic(&self) -> &str {
        self.replacement.as_deref().unwrap_or("outbox.event.${routedByValue}")
    }
}

fn by_columns(table: &str, columns: &Columns<'_>) -> Option<Shape> {
    let (key, event_type) = (columns.first(KEY), columns.first(TYPE));
    let is_telling =
        columns.first(KEY.get(..TELLING_KEYS).unwrap_or_default()).is_some() && event_type.is_some();
    let is_named = ["outbox", "outgoing"].iter().any(|part| table.to_lowercase().contains(part));
    if !is_named && !is_telling {
        return None;
    }
    let (topic, aggregate) = (columns.first(TOPIC), columns.first(AGGREGATE));
    let (id, payload) = (columns.first(ID)?, columns.first(PAYLOAD)?);
    let route = topic.or(aggregate).or(event_type)?.to_owned();
    Some(Shape {
        preset: "columns".to_owned(),
        replacement: (aggregate != Some(route.as_str())).then(|| AS_IT_IS.to_owned()),
        regex: None,
        placement: placement(None, event_type, &route),
        event_type: event_type.map(str::to_owned),
        marks: columns.marks(None),
        key: key.unwrap_or(id).to_owned(),
        id: id.to_owned(),
        payload: payload.to_owned(),
        route,
    })
}

/// Returns the placement of the preset, and the event's type as a header, unless it is the topic.
fn placement(preset: Option<String>, event_type: Option<&str>, route: &str) -> Vec<String> {
    let event_type = event_type.filter(|column| *column != route).map(|column| format!("{column}:header"));
    preset.into_iter().chain(event_type).collect()
}

/// A row of the table.
struct Row(Vec<&'static str>);

fn rows() -> impl Iterator<Item = Row> {
    let lines = PRESETS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| Row(line.split('\t').collect()))
}

impl Row {
    fn cell(&self, at: usize) -> Option<&'static str> {
        self.0.get(at).copied().filter(|cell| !cell.is_empty())
    }

    fn name(&self) -> &'static str {
        self.cell(0).unwrap_or_default()
    }

    fn is_there(&self, columns: &Columns<'_>) -> bool {
        let mut needs = self.cell(1).unwrap_or_default().split(',');
        needs.all(|need| columns.named(need).is_some())
    }

    fn shape(&self, columns: &Columns<'_>) -> Option<Shape> {
        let column = |at: usize, names: &[&str]| match self.cell(at) {
            Some("-") => None,
            Some(name) => columns.named(name),
            None => columns.first(names),
        };
        let id = column(2, ID)?;
        let (route, event_type) = (column(4, AGGREGATE)?.to_owned(), column(5, TYPE));
        let placed = self.cell(9).map(|placed| match placed.split_once(':') {
            Some((name, rest)) => format!("{}:{rest}", columns.named(name).unwrap_or(name)),
            None => placed.to_owned(),
        });
        Some(Shape {
            preset: self.name().to_owned(),
            key: column(3, KEY).unwrap_or(id).to_owned(),
            placement: placement(placed, event_type, &route),
            event_type: event_type.map(str::to_owned),
            payload: column(6, PAYLOAD)?.to_owned(),
            replacement: self.cell(7).map(str::to_owned),
            regex: self.cell(8).map(str::to_owned),
            marks: if self.cell(10) == Some("deletes") {
                vec![Mark::Deletes]
            } else {
                columns.marks(self.cell(10))
            },
            id: id.to_owned(),
            route,
        })
    }
}

/// Returns the columns of a table in which a polling relay may mark its rows.
pub(in crate::cli) fn marks_among(columns: &[Named]) -> Vec<Mark> {
    Columns(columns).marks(None)
}

/// The columns of a table.
struct Columns<'c>(&'c [Named]);

impl<'c> Columns<'c> {
    /// Returns the column whose name is equal in the form of [`plain`].
    fn named(&self, name: &str) -> Option<&'c str> {
        self.typed(name).map(|(column, _)| column)
    }

    fn typed(&self, name: &str) -> Option<(&'c str, &'c str)> {
        let found = self.0.iter().find(|(column, _)| plain(column) == name)?;
        Some((&found.0, &found.1))
    }

    fn first(&self, names: &[&str]) -> Option<&'c str> {
        names.iter().find_map(|name| self.named(name))
    }

    fn marks(&self, preset: Option<&'static str>) -> Vec<Mark> {
        Mark::among(preset, |name| self.typed(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(table: &str, columns: &str) -> Option<Shape> {
        let columns: Vec<_> = columns
            .split(' ')
            .map(|column| {
                let (name, kind) = column.split_once(':').unwrap_or((column, "text"));
                (name.to_owned(), kind.to_owned())
            })
            .collect();
        Shape::of(table, &columns, None)
    }

    #[test]
    fn what_is_no_outbox_is_none() {
        for (table, columns) in [
            ("orders", "id customer_id amount created_at"),
            ("articles", "id type title data"),
            ("messages", "id room_id body type"),
            ("processed_messages", "idempotency_key processed_at"),
            ("outbox_sequence", "aggregate_type aggregate_id last_number"),
        ] {
            assert_eq!(of(table, columns), None, "{table}");
        }
    }

    #[test]
    fn each_preset_is_found_by_what_it_needs() {
        for row in rows() {
            let needs = row.cell(1).unwrap().replace(',', " ");
            let rest = "id created_at";
            let found = of("t", &format!("{needs} {rest}"));
            // A preset with fewer needs may precede one with more: then the latter would never be found.
            assert_eq!(found.unwrap().preset, row.name());
        }
    }

    #[test]
    fn a_table_that_is_called_outbox_needs_little() {
        let shape = of("shop_outbox", "id kind Type messageBody created").unwrap();
        assert_eq!(
            (shape.preset.as_str(), shape.key.as_str(), shape.payload.as_str()),
            ("columns", "id", "messageBody")
        );
        assert_eq!((shape.route.as_str(), shape.topic()), ("Type", "${routedByValue}"));
        assert!(shape.placement.is_empty() && shape.marks.is_empty());
    }
}

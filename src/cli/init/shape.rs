//! Whether a table is an outbox, by its columns, and which of them is what. Sans-io.

use super::mark::Mark;
use crate::cli::marks::plain;

/// The shapes that are known by name.
const PRESETS: &str = include_str!("presets.tsv");

/// Where it goes when its column says the topic itself.
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
/// Keys that no table has which is not about events.
const TELLING_KEYS: usize = 5;

/// A column: its name, and its type's name as the catalog has it (empty when that is not known yet).
pub(in crate::cli) type Named = (String, String);

/// What the columns of an outbox are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Which of the known ones; `columns` when it is none of them.
    pub(super) preset: String,
    pub(super) id: String,
    pub(super) key: String,
    /// The column that decides the topic.
    pub(super) route: String,
    pub(super) event_type: Option<String>,
    pub(super) payload: String,
    /// `route.topic.regex` and `route.topic.replacement`, where Debezium's defaults do not fit.
    pub(super) regex: Option<String>,
    pub(super) replacement: Option<String>,
    /// `table.fields.additional.placement`
    pub(super) placement: Vec<String>,
    /// What a polling relay writes into it.
    pub(super) mark: Option<Mark>,
}

impl Shape {
    /// What a table of this name and these columns is; `preset` is the one that the user means.
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

    /// The names of the known ones.
    pub(super) fn names() -> Vec<&'static str> {
        rows().map(|row| row.name()).collect()
    }

    /// Where records go.
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
        mark: columns.mark(None),
        key: key.unwrap_or(id).to_owned(),
        id: id.to_owned(),
        payload: payload.to_owned(),
        route,
    })
}

/// What the preset places, and the event's type as a header, unless it is the topic.
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
            mark: if self.cell(10) == Some("deletes") {
                Some(Mark::Deletes)
            } else {
                columns.mark(self.cell(10))
            },
            id: id.to_owned(),
            route,
        })
    }
}

/// The mark of a polling relay among a table's columns.
pub(in crate::cli) fn mark_among(columns: &[Named]) -> Option<Mark> {
    Columns(columns).mark(None)
}

/// The columns of a table.
struct Columns<'c>(&'c [Named]);

impl<'c> Columns<'c> {
    /// The column of this name, as names are compared.
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

    fn mark(&self, preset: Option<&'static str>) -> Option<Mark> {
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
            // A poorer one may stand before a richer one: then nobody could ever have the richer.
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
        assert!(shape.placement.is_empty() && shape.mark.is_none());
    }
}

//! Tables that an incremental snapshot had not finished.

use serde_json::{Map, Value};

use super::value::OffsetError;

/// `incremental_snapshot_collections`: a JSON array, stored as a text.
const COLLECTIONS: &str = "incremental_snapshot_collections";

/// Table that an incremental snapshot had not finished. The position in the first of them is not known: it is a serialized
/// Java object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnreadTable {
    /// `schema.table`
    pub name: String,
    /// Condition that selects the rows of the snapshot.
    pub filter: Option<String>,
    /// Column by which chunks are cut, if it is not the key.
    pub surrogate_key: Option<String>,
    /// Identifier of the signal that requested the snapshot.
    pub signal: Option<String>,
}

/// Returns the unfinished tables, in their order.
pub(super) fn unread(members: &Map<String, Value>) -> Result<Vec<UnreadTable>, OffsetError> {
    let text = match members.get(COLLECTIONS) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => text,
        Some(_) => return Err(OffsetError::Member(COLLECTIONS)),
    };
    // Text that looks like JSON but has another form must not be read as names: its tables would be lost.
    if !text.trim_start().starts_with(['[', '{', '"']) {
        return Ok(names(text));
    }
    let tables: Vec<Map<String, Value>> =
        serde_json::from_str(text).map_err(|_| OffsetError::Member(COLLECTIONS))?;
    let last = members.get("incremental_snapshot_correlation_id").and_then(Value::as_str);
    tables.iter().map(|table| described(table, last).ok_or(OffsetError::Member(COLLECTIONS))).collect()
}

/// Reads comma-separated names, which Debezium stored before version 2.
fn names(text: &str) -> Vec<UnreadTable> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| UnreadTable { name: name.to_owned(), ..UnreadTable::default() }).collect()
}

fn described(table: &Map<String, Value>, last: Option<&str>) -> Option<UnreadTable> {
    let said = |name: &str| {
        let value = table.get(&format!("{COLLECTIONS}_{name}")).and_then(Value::as_str);
        value.filter(|value| !value.trim().is_empty()).map(str::to_owned)
    };
    Some(UnreadTable {
        name: said("id")?,
        filter: said("additional_condition"),
        surrogate_key: said("surrogate_key"),
        signal: said("correlation_id").or_else(|| last.map(str::to_owned)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::SourceOffset;
    use super::*;

    fn read(members: &str) -> Result<Vec<UnreadTable>, OffsetError> {
        let json = format!(r#"{{"lsn_proc":8,"lsn":8{members}}}"#);
        SourceOffset::parse(json.as_bytes()).map(|offset| offset.unread)
    }

    /// As `AbstractIncrementalSnapshotContext` of 3.7 writes it.
    #[test]
    fn the_tables_that_were_left_are_read() {
        let offset = r#","incremental_snapshot_primary_key":"aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000001","incremental_snapshot_maximum_key":"aced00057070","incremental_snapshot_collections":"[{\"incremental_snapshot_collections_id\":\"public.a\",\"incremental_snapshot_collections_additional_condition\":\"id > 2\",\"incremental_snapshot_collections_surrogate_key\":null,\"incremental_snapshot_collections_correlation_id\":\"s-1\"},{\"incremental_snapshot_collections_id\":\"public.b\",\"incremental_snapshot_collections_additional_condition\":\"\",\"incremental_snapshot_collections_surrogate_key\":\"rank\"}]","incremental_snapshot_correlation_id":"s-2""#;
        let text = |text: &str| Some(text.to_owned());
        let a = UnreadTable {
            name: "public.a".into(),
            filter: text("id > 2"),
            surrogate_key: None,
            signal: text("s-1"),
        };
        let b = UnreadTable {
            name: "public.b".into(),
            filter: None,
            surrogate_key: text("rank"),
            signal: text("s-2"),
        };
        assert_eq!(read(offset).unwrap(), [a, b]);
    }

    #[test]
    fn names_of_older_versions_are_read_and_what_is_none_is_refused() {
        let old = read(r#","incremental_snapshot_collections":"public.a, public.b""#).unwrap();
        assert_eq!(old.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["public.a", "public.b"]);
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read(r#","incremental_snapshot_collections":"[]""#).unwrap(), []);
        assert!(read(r#","incremental_snapshot_collections":7"#).is_err());
        assert!(read(r#","incremental_snapshot_collections":"[{}]""#).is_err());
        for unknown in [r#"[\"public.a\"]"#, r#"{\"public.a\":{}}"#, " [{"] {
            let members = format!(r#","incremental_snapshot_collections":"{unknown}""#);
            assert!(read(&members).is_err(), "{unknown}");
        }
    }
}

//! Signals and their actions.

use serde_json::{Map, Value};

use super::Condition;

/// A signal to the relay: a row of the signalling table, or the same from another channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// The id, which notifications repeat.
    pub id: String,
    /// The action.
    pub action: Action,
}

/// The action of a signal.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// `execute-snapshot`
    ExecuteSnapshot(SnapshotRequest),
    /// `stop-snapshot`, for these tables; an empty list means all.
    StopSnapshot(Vec<String>),
    /// `pause-snapshot`
    PauseSnapshot,
    /// `resume-snapshot`
    ResumeSnapshot,
    /// `log`
    Log(String),
    /// `schema-changes`: no action, because the schemas of tables come from the catalog.
    SchemaChanges,
    /// `snapshot-window-open`: a watermark.
    OpenWindow,
    /// `snapshot-window-close`: a watermark.
    CloseWindow,
}

/// A request to read tables.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotRequest {
    /// Incremental or blocking.
    pub kind: SnapshotKind,
    /// `data-collections`: names, or regular expressions for names.
    pub collections: Vec<String>,
    /// `additional-conditions`
    pub conditions: Vec<Condition>,
    /// `surrogate-key`: the column that chunks are cut by.
    pub surrogate_key: Option<String>,
}

/// The kind of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// A snapshot in chunks, beside the stream.
    Incremental,
    /// A snapshot of all rows, while the stream waits.
    Blocking,
}

/// Reason why a signal is skipped. Its text does not contain the signal's data, which may have values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// No action has this name.
    #[error("its type is unknown")]
    UnknownType,
    /// The data is no JSON object.
    #[error("its data is no JSON object")]
    NotJson,
    /// A member is missing or of another type.
    #[error("its {0} is missing or is not what it must be")]
    Member(&'static str),
    /// A regular expression is invalid.
    #[error("a data-collection of its additional-conditions is no regular expression")]
    Pattern,
}

impl Signal {
    /// Parses a signal: its id, the name of its action, and the action's data.
    ///
    /// # Errors
    /// When the action is unknown, or its data is invalid.
    pub fn parse(id: &str, kind: &str, data: Option<&str>) -> Result<Self, SignalError> {
        let action = match kind {
            "execute-snapshot" => Action::ExecuteSnapshot(SnapshotRequest::parse(&object(data)?)?),
            "stop-snapshot" => Action::StopSnapshot(names(&object(data)?)?.unwrap_or_default()),
            "pause-snapshot" => Action::PauseSnapshot,
            "resume-snapshot" => Action::ResumeSnapshot,
            "log" => Action::Log(text(&object(data)?, "message").ok_or(SignalError::Member("message"))?),
            "schema-changes" => Action::SchemaChanges,
            "snapshot-window-open" => Action::OpenWindow,
            "snapshot-window-close" => Action::CloseWindow,
            _ => return Err(SignalError::UnknownType),
        };
        Ok(Self { id: id.to_owned(), action })
    }

    /// Parses a signal that is one JSON document, as in the channels `kafka` and `file`.
    ///
    /// # Errors
    /// When the document or the signal is invalid.
    pub fn parse_document(document: &str) -> Result<Self, SignalError> {
        let members = object(Some(document))?;
        let id = text(&members, "id").ok_or(SignalError::Member("id"))?;
        let kind = text(&members, "type").ok_or(SignalError::Member("type"))?;
        let data = match members.get("data") {
            None | Some(Value::Null) => None,
            Some(Value::String(data)) => Some(data.clone()),
            Some(data) => Some(data.to_string()),
        };
        Self::parse(&id, &kind, data.as_deref())
    }
}

impl SnapshotRequest {
    fn parse(data: &Map<String, Value>) -> Result<Self, SignalError> {
        let collections = names(data)?.ok_or(SignalError::Member("data-collections"))?;
        let kind = match text(data, "type").map(|kind| kind.to_ascii_lowercase()).as_deref() {
            None | Some("incremental") => SnapshotKind::Incremental,
            Some("blocking") => SnapshotKind::Blocking,
            Some(_) => return Err(SignalError::Member("type")),
        };
        let surrogate_key = text(data, "surrogate-key").filter(|column| !column.trim().is_empty());
        Ok(Self { kind, collections, conditions: conditions(data)?, surrogate_key })
    }
}

fn conditions(data: &Map<String, Value>) -> Result<Vec<Condition>, SignalError> {
    const MEMBER: SignalError = SignalError::Member("additional-conditions");
    let conditions = match data.get("additional-conditions") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(conditions)) => conditions,
        Some(_) => return Err(MEMBER),
    };
    let condition = |condition: &Value| {
        let condition = condition.as_object().ok_or(MEMBER)?;
        let table = text(condition, "data-collection").ok_or(MEMBER)?;
        let filter = text(condition, "filter").ok_or(MEMBER)?;
        Condition::new(&table, filter).ok_or(SignalError::Pattern)
    };
    conditions.iter().map(condition).collect()
}

fn object(data: Option<&str>) -> Result<Map<String, Value>, SignalError> {
    let Some(data) = data.filter(|data| !data.is_empty()) else { return Ok(Map::new()) };
    match serde_json::from_str(data) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(SignalError::NotJson),
    }
}

fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name)?.as_str().map(str::to_owned)
}

/// Reads `data-collections`; returns `None` if there are none.
fn names(data: &Map<String, Value>) -> Result<Option<Vec<String>>, SignalError> {
    const MEMBER: SignalError = SignalError::Member("data-collections");
    let names = match data.get("data-collections") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(names)) if names.is_empty() => return Ok(None),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(MEMBER),
    };
    let name = |name: &Value| name.as_str().map(|name| name.trim().to_owned()).ok_or(MEMBER);
    names.iter().map(name).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signals_are_read_as_debezium_reads_them() {
        let data = r#"{"data-collections":[" public.a ","public.b.*"],"type":"BLOCKING","surrogate-key":" ","additional-conditions":[{"data-collection":"PUBLIC.a","filter":"id <> 2"}]}"#;
        let signal = Signal::parse("s", "execute-snapshot", Some(data)).unwrap();
        let Action::ExecuteSnapshot(request) = signal.action else { panic!("{signal:?}") };
        assert_eq!(request.kind, SnapshotKind::Blocking);
        assert_eq!(request.collections, ["public.a", "public.b.*"]);
        assert_eq!(request.surrogate_key, None);
        assert_eq!(request.conditions[0].of("public.a"), Some("id <> 2"));
        assert_eq!(request.conditions[0].of("public.ab"), None);
    }

    #[test]
    fn what_is_no_signal_is_reported() {
        let cases = [
            ("execute-snapshot", Some("not json"), SignalError::NotJson),
            ("execute-snapshot", None, SignalError::Member("data-collections")),
            (
                "execute-snapshot",
                Some(r#"{"data-collections":[1]}"#),
                SignalError::Member("data-collections"),
            ),
            (
                "execute-snapshot",
                Some(r#"{"data-collections":["a"],"type":"slow"}"#),
                SignalError::Member("type"),
            ),
            ("no-such-signal", Some("{}"), SignalError::UnknownType),
            ("log", Some("{}"), SignalError::Member("message")),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(Signal::parse("s", kind, data), Err(expected), "{kind} {data:?}");
        }
    }

    #[test]
    fn a_document_holds_its_data_as_text_or_as_an_object() {
        for data in [r#"{"message":"hello"}"#, r#""{\"message\":\"hello\"}""#] {
            let document = format!(r#"{{"id":"1","type":"log","data":{data}}}"#);
            let signal = Signal::parse_document(&document).unwrap();
            assert_eq!(signal.action, Action::Log("hello".to_owned()));
        }
        let stop = Signal::parse_document(r#"{"id":"1","type":"stop-snapshot"}"#).unwrap();
        assert_eq!(stop.action, Action::StopSnapshot(Vec::new()));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(kind: String, data: String) {
            drop(Signal::parse("s", &kind, Some(&data)));
            drop(Signal::parse_document(&data));
        }
    }
}

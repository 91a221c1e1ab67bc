//! Search terms of `outboxd explain`.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::cli::shell::text::says;
use crate::wal::Lsn;

/// Kind of the text, as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Id,
    Key,
}

/// Search term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) text: String,
    /// The same UUID as PostgreSQL writes it, if it is written in another way.
    pub(super) uuid: Option<String>,
    pub(super) id: bool,
    pub(super) key: bool,
    /// Position in the WAL, if the text is one: the LSN of a commit, as in the header `outboxd.position`, or
    /// of a change, as in its event.
    pub(super) lsn: Option<Lsn>,
    /// True if keys have fields, as those of change events: the text is the value of one of them, or all of
    /// them as JSON.
    pub(super) fields: bool,
}

/// The columns of a table's key that are compared, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compared<'c> {
    /// One of these columns has one of the texts.
    Any(Vec<&'c str>),
    /// Each column has its own text.
    Each(Vec<(&'c str, String)>),
}

impl Wanted {
    pub(super) fn parse(text: &str, kind: Kind) -> Self {
        let lsn = if kind == Kind::Any { text.parse().ok() } else { None };
        let otherwise = lsn.is_none();
        let (id, key) = (otherwise && kind != Kind::Key, otherwise && kind != Kind::Id);
        let uuid = Uuid::try_parse(text).ok().map(|uuid| uuid.to_string()).filter(|uuid| uuid != text);
        Self { text: text.to_owned(), uuid, id, key, lsn, fields: false }
    }

    /// Returns its possible spellings.
    pub(super) fn texts(&self) -> Vec<&str> {
        std::iter::once(&self.text).chain(&self.uuid).map(String::as_str).collect()
    }

    /// Returns how rows of a table with this key are compared; `None` when none of them can have the key.
    pub(super) fn compared<'c>(&self, key: &[&'c str]) -> Option<Compared<'c>> {
        let Some(fields) = self.object() else { return Some(Compared::Any(key.to_vec())) };
        let mut texts = key.iter().map(|column| Some((*column, said(fields.get(*column)?)?)));
        let is_whole = fields.len() == key.len();
        texts.by_ref().collect::<Option<_>>().filter(|_| is_whole).map(Compared::Each)
    }

    /// Returns the fields of a whole key.
    fn object(&self) -> Option<Map<String, Value>> {
        fields(self.text.as_bytes()).filter(|_| self.fields)
    }

    /// Returns whether a record's id, whatever wrote it, is the text.
    pub(super) fn is_said_by_id(&self, id: Option<&[u8]>) -> bool {
        self.id && id.is_some_and(|id| self.texts().iter().any(|text| says(id, text)))
    }

    /// Returns whether a record's key is the text.
    pub(super) fn is_said_by_key(&self, key: &[u8]) -> bool {
        self.key && (self.texts().iter().any(|text| says(key, text)) || self.is_said_by_fields(key))
    }

    fn is_said_by_fields(&self, key: &[u8]) -> bool {
        let Some(key) = fields(key).filter(|_| self.fields) else { return false };
        let is_said =
            |value: &Value| said(value).is_some_and(|value| self.texts().iter().any(|text| *text == value));
        self.object().is_some_and(|wanted| wanted == key) || key.values().any(is_said)
    }
}

/// Returns the fields of a key in JSON, with or without its schema.
fn fields(key: &[u8]) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut key)) = serde_json::from_slice(key) else { return None };
    if !key.contains_key("schema") {
        return Some(key);
    }
    match key.remove("payload") {
        Some(Value::Object(payload)) => Some(payload),
        Some(payload) => {
            key.insert("payload".to_owned(), payload);
            Some(key)
        }
        None => Some(key),
    }
}

/// Returns a value as PostgreSQL writes it, for the types that most keys have.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(value) => Some(value.clone()),
        Value::Number(value) => Some(value.as_str().to_owned()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lsn_is_no_key_unless_it_is_said_to_be_one() {
        let parsed = |text, kind| {
            let wanted = Wanted::parse(text, kind);
            (wanted.id, wanted.key, wanted.lsn.map(|lsn| lsn.to_string()))
        };
        assert_eq!(parsed("0/16B3748", Kind::Any), (false, false, Some("0/16B3748".to_owned())));
        assert_eq!(parsed("0/16B3748", Kind::Key), (false, true, None));
        assert_eq!(parsed("42", Kind::Any), (true, true, None));
        assert_eq!(parsed("42", Kind::Id), (true, false, None));
    }

    #[test]
    fn a_key_of_a_table_is_known_by_one_of_its_fields() {
        let wanted = |text| Wanted { fields: true, ..Wanted::parse(text, Kind::Any) };
        let keys = [r#"{"id":42,"name":"a"}"#, r#"{"schema":{},"payload":{"id":42,"name":"a"}}"#];
        for key in keys.map(str::as_bytes) {
            assert!(["42", "a"].iter().all(|text| wanted(text).is_said_by_key(key)));
            assert!(["4", "id", "{}"].iter().all(|text| !wanted(text).is_said_by_key(key)));
            assert!(!Wanted::parse("42", Kind::Any).is_said_by_key(key));
        }
    }

    #[test]
    fn a_whole_key_is_known_however_it_is_written() {
        let wanted = |text| Wanted { fields: true, ..Wanted::parse(text, Kind::Any) };
        let keys = [r#"{"id":42,"name":"a"}"#, r#"{"schema":{},"payload":{"id":42,"name":"a"}}"#];
        for text in [r#"{"name": "a", "id": 42}"#, keys[0], keys[1]] {
            assert!(keys.iter().all(|key| wanted(text).is_said_by_key(key.as_bytes())), "{text}");
            let each = vec![("name", "a".to_owned()), ("id", "42".to_owned())];
            assert_eq!(wanted(text).compared(&["name", "id"]), Some(Compared::Each(each)));
            // Rows of other tables.
            assert!(
                [&["id"][..], &["id", "name", "v"], &["id", "v"]]
                    .iter()
                    .all(|key| wanted(text).compared(key).is_none())
            );
        }
        assert!(!wanted(r#"{"id":42}"#).is_said_by_key(keys[0].as_bytes()));
        assert_eq!(wanted("42").compared(&["id", "v"]), Some(Compared::Any(vec!["id", "v"])));
    }

    #[test]
    fn a_uuid_is_known_however_it_is_written() {
        let id = "3dd3e317-ff96-4b63-a58c-2d06bc6f07dc";
        for text in [id.to_owned(), id.to_uppercase(), format!("{{{id}}}")] {
            assert!(Wanted::parse(&text, Kind::Any).is_said_by_id(Some(id.as_bytes())), "{text}");
        }
        // A column of texts may have it so.
        let upper = id.to_uppercase();
        assert!(Wanted::parse(&upper, Kind::Any).is_said_by_id(Some(upper.as_bytes())));
    }

    #[test]
    fn an_id_is_known_in_every_converter() {
        let wanted = Wanted::parse("a\"1", Kind::Any);
        let schema = br#"{"schema":{"type":"string"},"payload":"a\"1"}"#;
        for bytes in [&b"a\"1"[..], br#""a\"1""#, schema] {
            assert!(wanted.is_said_by_id(Some(bytes)) && wanted.is_said_by_key(bytes), "{bytes:?}");
        }
        for bytes in [&b"a\"12"[..], b"", br#"{"payload":"b"}"#] {
            assert!(!wanted.is_said_by_id(Some(bytes)) && !wanted.is_said_by_key(bytes), "{bytes:?}");
        }
    }
}

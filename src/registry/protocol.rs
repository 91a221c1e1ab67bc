//! Requests and answers of Confluent's REST interface, without I/O.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::error::Error;
use super::form;
use super::options::{Lookup, Options};
use crate::connect::converter::registered::{Registration, SchemaId, SchemaType, WrittenSchema};

/// Characters of a subject that are literal in a path.
const SUBJECT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters of an unexpected answer that are shown.
const SHOWN_CHARACTERS: usize = 200;

/// A question to the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The path behind the address, with its query.
    pub(super) path: String,
    /// The JSON to be posted; `None` is GET.
    pub(super) body: Option<String>,
}

/// An answer of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Makes the request for the id of a schema.
    pub(super) fn id(options: &Options, registration: &Registration) -> Self {
        let subject = utf8_percent_encode(&registration.subject, SUBJECT);
        let body = Some(schema_body(registration).to_string());
        let normalize = options.normalize;
        match options.lookup {
            Lookup::Register => {
                Self { path: format!("/subjects/{subject}/versions?normalize={normalize}"), body }
            }
            Lookup::Find => {
                Self { path: format!("/subjects/{subject}?normalize={normalize}&deleted=false"), body }
            }
            Lookup::Latest => Self { path: format!("/subjects/{subject}/versions/latest"), body: None },
        }
    }

    /// Makes the request for the schema with an id.
    pub(super) fn schema(SchemaId(id): SchemaId) -> Self {
        Self { path: format!("/schemas/ids/{id}"), body: None }
    }

    /// Makes the request for something that every registry has.
    pub(super) fn types() -> Self {
        Self { path: "/schemas/types".to_owned(), body: None }
    }
}

impl Answer {
    /// Returns the id that was requested with [`Request::id`].
    pub(super) fn id(
        &self,
        options: &Options,
        registration: &Registration,
        address: &str,
    ) -> Result<SchemaId, Error> {
        self.check(options, address, Some(registration))?;
        let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let id = object.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| self.unexpected(address))?;
        if options.lookup == Lookup::Latest {
            let latest = object.get("schema").and_then(Value::as_str).unwrap_or_default();
            if !form::is_same(registration.kind, latest, &registration.text) {
                return Err(Error::OtherForm { subject: registration.subject.clone() });
            }
        }
        Ok(SchemaId(id))
    }

    /// Returns the schema that was requested with [`Request::schema`]; `None` when there is none.
    pub(super) fn schema(&self, options: &Options, address: &str) -> Result<Option<WrittenSchema>, Error> {
        if self.status == 404 && self.is_of_the_registry() {
            return Ok(None);
        }
        self.check(options, address, None)?;
        let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let kind = SchemaType::of(object.get("schemaType").and_then(Value::as_str));
        let text = object.get("schema").and_then(Value::as_str);
        let (kind, text) = kind.zip(text).ok_or_else(|| self.unexpected(address))?;
        Ok(Some(WrittenSchema { kind, text: text.to_owned() }))
    }

    /// Checks whether it is a valid answer at all.
    pub(super) fn check(
        &self,
        options: &Options,
        address: &str,
        registration: Option<&Registration>,
    ) -> Result<(), Error> {
        let (status, reason, address) = (self.status, self.reason(), address.to_owned());
        let Some(Registration { subject, kind, .. }) = registration else {
            return match status {
                200..=299 => Ok(()),
                _ => Err(self.general(options, address)),
            };
        };
        let subject = subject.clone();
        match status {
            200..=299 => Ok(()),
            404 if self.is_of_the_registry() => {
                Err(Error::NotRegistered { subject, reason, fix: fix(options) })
            }
            409 => Err(Error::Incompatible { subject, reason }),
            422 => Err(Error::Invalid { subject, reason, fix: fix_of_invalid(options, *kind) }),
            _ => Err(self.general(options, address)),
        }
    }

    fn general(&self, options: &Options, address: String) -> Error {
        let (status, reason) = (self.status, self.reason());
        match status {
            401 | 403 => Error::Denied { address, status, reason, fix: options.login_fix(), renewable: None },
            408 | 425 | 429 | 500..=599 => Error::Unavailable { address, status, reason },
            _ => self.unexpected(&address),
        }
    }

    fn unexpected(&self, address: &str) -> Error {
        Error::Unexpected { address: address.to_owned(), status: self.status, reason: self.reason() }
    }

    /// Returns whether an error comes from the registry: its errors have a number of their own, a proxy's or
    /// a wrong path's have not.
    fn is_of_the_registry(&self) -> bool {
        serde_json::from_slice::<Value>(&self.body).is_ok_and(|body| body.get("error_code").is_some())
    }

    /// Returns the registry's own words.
    fn reason(&self) -> String {
        let object: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = match object.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(SHOWN_CHARACTERS).collect()
    }
}

/// Makes the body of a schema. One of no type is Avro's, also to registries that support no other.
fn schema_body(registration: &Registration) -> Value {
    match registration.kind {
        SchemaType::Avro => json!({ "schema": registration.text }),
        other => json!({ "schemaType": other.name(), "schema": registration.text }),
    }
}

fn fix_of_invalid(options: &Options, kind: SchemaType) -> String {
    let converter = &options.converter;
    match kind {
        SchemaType::Avro => format!(
            "to change names that Avro does not allow, set schema.name.adjustment.mode=avro, or \
             {converter}.scrub.invalid.names=true"
        ),
        SchemaType::Protobuf => {
            format!("to change names that Protobuf does not allow, set {converter}.scrub.invalid.names=true")
        }
        SchemaType::Json => {
            "Apicurio accepts only JSON Schemas of records: give the value an envelope, such as \
             table.fields.additional.placement=type:envelope, and name another converter for keys"
                .to_owned()
        }
    }
}

fn fix(options: &Options) -> String {
    let converter = &options.converter;
    match options.lookup {
        Lookup::Latest => format!("register a first version, or set {converter}.auto.register.schemas=true"),
        Lookup::Register | Lookup::Find => {
            format!("register it, or set {converter}.auto.register.schemas=true")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::connect::converter::registered::Side;
    use crate::error::{Class, Diagnose as _, Exit};
    use crate::registry::{Login, TlsOptions};

    fn options(lookup: Lookup) -> Options {
        Options {
            converter: "value.converter".into(),
            addresses: vec![],
            login: Login::none("value.converter"),
            headers: Vec::new(),
            lookup,
            normalize: false,
            tls: TlsOptions::default(),
        }
    }

    fn registration() -> Registration {
        Registration {
            side: Side::Value,
            topic: "a/b".into(),
            subject: "a/b-value".into(),
            kind: SchemaType::Avro,
            text: r#"["null","string"]"#.into(),
            schema: None,
            ids_max: 1,
        }
    }

    #[test]
    fn each_lookup_has_its_request() {
        let body = Some(r#"{"schema":"[\"null\",\"string\"]"}"#.to_owned());
        let cases = [
            (Lookup::Register, "/subjects/a%2Fb-value/versions?normalize=false", body.clone()),
            (Lookup::Find, "/subjects/a%2Fb-value?normalize=false&deleted=false", body),
            (Lookup::Latest, "/subjects/a%2Fb-value/versions/latest", None),
        ];
        for (lookup, path, body) in cases {
            assert_eq!(Request::id(&options(lookup), &registration()), Request { path: path.into(), body });
        }
    }

    #[test]
    fn answers_are_ids_or_errors_of_their_class() {
        let cases = [
            (200, r#"{"id":7}"#, Ok(7)),
            (200, r#"{"id":-7}"#, Err((Class::Definite, Exit::Precondition))),
            (200, "<html>", Err((Class::Definite, Exit::Precondition))),
            (404, r#"{"error_code":40403,"message":"Schema not found"}"#, Err((Class::Definite, Exit::Row))),
            (404, "<html>not here</html>", Err((Class::Definite, Exit::Precondition))),
            (409, r#"{"error_code":409,"message":"reader type"}"#, Err((Class::Definite, Exit::Row))),
            (422, r#"{"error_code":42201,"message":"no schema"}"#, Err((Class::Definite, Exit::Row))),
            (401, "", Err((Class::Definite, Exit::Precondition))),
            (403, "", Err((Class::Definite, Exit::Precondition))),
            (302, "", Err((Class::Definite, Exit::Precondition))),
            (429, "", Err((Class::Transient, Exit::Failed))),
            (503, "", Err((Class::Transient, Exit::Failed))),
        ];
        for (status, body, expected) in cases {
            let answer = Answer { status, body: body.into() };
            let found = answer.id(&options(Lookup::Register), &registration(), "http://registry:8081");
            let found = found.map(|SchemaId(id)| id).map_err(|error| (error.class(), error.exit()));
            assert_eq!(found, expected, "{status} {body}");
        }
    }

    #[test]
    fn a_schema_is_known_by_its_id() {
        let asked = Request::schema(SchemaId(7));
        assert_eq!((asked.path.as_str(), asked.body), ("/schemas/ids/7", None));
        let written = |kind| Ok(Some(WrittenSchema { kind, text: "x".to_owned() }));
        let cases = [
            (200, r#"{"schema":"x"}"#, written(SchemaType::Avro)),
            (200, r#"{"schemaType":"PROTOBUF","schema":"x","references":[]}"#, written(SchemaType::Protobuf)),
            (200, r#"{"schemaType":"XML","schema":"x"}"#, Err(Class::Definite)),
            (200, "{}", Err(Class::Definite)),
            (404, r#"{"error_code":40403,"message":"Schema not found"}"#, Ok(None)),
            (404, "<html>not here</html>", Err(Class::Definite)),
            (503, "", Err(Class::Transient)),
        ];
        for (status, body, expected) in cases {
            let found = Answer { status, body: body.into() }.schema(&options(Lookup::Register), "http://a:1");
            assert_eq!(found.map_err(|error| error.class()), expected, "{status} {body}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_an_id_or_an_error(
            status in 100u16..600,
            bytes: Vec<u8>,
            text in r#"[{\[]("(id|schema|message|error_code)":(-?[0-9]{1,12}|"[^"]{0,20}"|null|\[\{),?){0,4}[}\]]?"#,
        ) {
            for body in [bytes, text.into_bytes()] {
                for lookup in [Lookup::Register, Lookup::Find, Lookup::Latest] {
                    let answer = Answer { status, body: body.clone() };
                    let found = answer.id(&options(lookup), &registration(), "http://registry:8081");
                    prop_assert!(found.is_err() || (200..300).contains(&status), "{status}");
                    if let Err(error) = found {
                        prop_assert!(crate::error::chain(&error).chars().count() < 4 * SHOWN_CHARACTERS);
                    }
                }
            }
        }
    }

    #[test]
    fn the_latest_version_must_be_of_the_rows_form() {
        let latest = |schema: &str| {
            let body = json!({ "id": 3, "schema": schema }).to_string().into();
            Answer { status: 200, body }.id(&options(Lookup::Latest), &registration(), "")
        };
        assert!(latest(r#"["null", {"type": "string", "connect.name": "io.debezium.data.Json"}]"#).is_ok());
        assert!(matches!(latest(r#""string""#), Err(Error::OtherForm { .. })));
    }
}

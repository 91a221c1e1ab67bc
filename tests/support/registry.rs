use std::fs::File;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as Avro;
use outboxd::internals::throwaway::unused_port;
use serde_json::{Value, json};

use super::http::{Page, send, try_get};
use super::programs::spawn;
use super::registry_home::apicurio;
use super::wait::{DEADLINE, eventually, eventually_some};
use super::watcher::Watcher;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::start(unused_port().unwrap()));

/// Returns the schema registry that the tests of this process share.
pub(crate) fn registry() -> &'static Registry {
    &REGISTRY
}

/// An Apicurio Registry, spoken to through its Confluent interface; gone with its schemas when this value is dropped or
/// the test process ends.
#[derive(Debug)]
pub(crate) struct Registry {
    _watcher: Watcher,
    port: u16,
}

impl Registry {
    /// Starts a registry on a port that the test has chosen.
    pub(crate) fn start(port: u16) -> Self {
        let mut watcher = Watcher::new("outboxd-registry-");
        let log = File::create(watcher.folder().join("log")).unwrap();
        let mut command = apicurio(port);
        command.current_dir(watcher.folder()).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        watcher.watch(&spawn(&mut command));
        let registry = Self { _watcher: watcher, port };
        eventually(DEADLINE.saturating_add(Duration::from_secs(60)), "the registry answers", || {
            try_get(port, "/apis/ccompat/v7/subjects").is_some_and(|page| page.code == 200)
        });
        registry
    }

    /// Returns the value of `schema.registry.url`.
    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    /// Returns the text of the schema with this id.
    pub(crate) fn schema(&self, id: u32) -> String {
        let page = self.get(&format!("/schemas/ids/{id}"));
        page.json()["schema"].as_str().unwrap_or_else(|| panic!("no schema {id}: {}", page.body)).to_owned()
    }

    /// Returns a record's schema, the schema's type, and the bytes after the schema id.
    #[track_caller]
    pub(crate) fn split<'b>(&self, bytes: &'b [u8]) -> (String, Value, &'b [u8]) {
        let [0, a, b, c, d, body @ ..] = bytes else { panic!("no magic byte and id: {bytes:?}") };
        let page = self.get(&format!("/schemas/ids/{}", u32::from_be_bytes([*a, *b, *c, *d])));
        let schema = page.json()["schema"].as_str().unwrap_or_else(|| panic!("{}", page.body)).to_owned();
        (schema, page.json()["schemaType"].clone(), body)
    }

    /// Returns every subject.
    pub(crate) fn subjects(&self) -> Vec<String> {
        serde_json::from_value(self.get("/subjects").json()).unwrap()
    }

    /// Registers a schema, and answers with its id.
    pub(crate) fn register(&self, subject: &str, schema: &str) -> u32 {
        self.register_as("AVRO", subject, schema)
    }

    /// Registers a schema of another type than Avro's.
    pub(crate) fn register_as(&self, kind: &str, subject: &str, schema: &str) -> u32 {
        let body = json!({ "schemaType": kind, "schema": schema });
        let page = self.send("POST", &format!("/subjects/{subject}/versions"), &body);
        u32::try_from(page.json()["id"].as_u64().unwrap_or_else(|| panic!("{}", page.body))).unwrap()
    }

    /// Sets a subject's rule, such as `BACKWARD`.
    pub(crate) fn set_compatibility(&self, subject: &str, rule: &str) {
        let page = self.send("PUT", &format!("/config/{subject}"), &json!({ "compatibility": rule }));
        assert_eq!(page.code, 200, "{}", page.body);
    }

    /// Decodes bytes like a consumer: returns the schema's text and the value, by the id before it.
    #[track_caller]
    pub(crate) fn read(&self, bytes: &[u8]) -> (String, Avro) {
        let [0, a, b, c, d, body @ ..] = bytes else { panic!("no magic byte and id: {bytes:?}") };
        let text = self.schema(u32::from_be_bytes([*a, *b, *c, *d]));
        let schema = Schema::parse_str(&text).unwrap();
        let reader = GenericDatumReader::builder(&schema).build().unwrap();
        let mut rest = body;
        let value = reader.read_value(&mut rest).unwrap();
        assert!(rest.is_empty(), "{} bytes too many", rest.len());
        (text, value)
    }

    fn get(&self, path: &str) -> Page {
        eventually_some(DEADLINE, path, || try_get(self.port, &format!("/apis/ccompat/v7{path}")))
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Page {
        send(self.port, method, &format!("/apis/ccompat/v7{path}"), &body.to_string())
    }
}

/// Returns the value of `schema.registry.url` for a registry that may not exist yet.
pub(crate) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/apis/ccompat/v7")
}

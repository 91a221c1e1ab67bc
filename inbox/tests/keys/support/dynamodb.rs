//! DynamoDB Local, and a client without AWS's library: it asks for one call only.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outboxd::internals::throwaway::unused_port;
use outboxd_inbox::idempotency::Key;
use outboxd_inbox::idempotency::dynamodb::{Attribute, DynamoDbStore, Item, Table, Update, Updated};
use serde_json::{Value, json};

use super::subject::Subject;
use crate::base::cache::{cached, run};
use crate::base::programs::spawn;
use crate::base::wait::{DEADLINE, eventually};
use crate::base::watcher::Watcher;

const VERSION: &str = "3.0.0";
const POM: &str = include_str!("dynamodb-pom.xml");
/// It takes any signature.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

/// With its data in memory and the table `records`. Killed when this value is dropped or the test process ends.
pub(crate) struct DynamoDb {
    process: Child,
    watcher: Watcher,
    table: LocalTable,
}

impl DynamoDb {
    pub(crate) fn start() -> Self {
        let (home, port) = (home(), unused_port().unwrap());
        let mut watcher = Watcher::new("outboxd-dynamodb-");
        let log = File::create(watcher.folder().join("log")).unwrap();
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg(format!("-Dsqlite4java.library.path={}", home.join("libs").display()));
        command.arg("-cp").arg(home.join("libs/*"));
        command.arg("software.amazon.dynamodb.services.local.main.ServerRunner");
        command.args(["-inMemory", "-disableTelemetry", "-port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = spawn(&mut command);
        watcher.watch(&process);
        let server = Self { process, watcher, table: LocalTable { port } };
        server.create_table();
        server
    }

    fn create_table(&self) {
        let table = json!({
            "TableName": "records",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        });
        eventually(DEADLINE, "DynamoDB Local has made a table", || {
            self.table.call("CreateTable", &table).is_ok_and(|(status, _)| status == 200)
        });
    }
}

impl Drop for DynamoDb {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.watcher.release();
    }
}

/// Returns a folder with its jars. The first process that asks fetches the 46 MB from Maven Central for all processes.
fn home() -> PathBuf {
    cached(&format!("dynamodb-local-{VERSION}"), |folder| {
        fs::write(folder.join("pom.xml"), POM.replace("DYNAMODB_VERSION", VERSION)).unwrap();
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
        run("mvn", maven.arg("-DoutputDirectory=libs").current_dir(folder));
    })
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalTable {
    port: u16,
}

impl LocalTable {
    fn call(self, operation: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        let request = format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: {SIGNED}\r\n\
             x-amz-target: DynamoDB_20120810.{operation}\r\ncontent-type: application/x-amz-json-1.0\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok((status, serde_json::from_str(body).unwrap()))
    }

    fn update(self, update: Update) -> Result<Updated, Box<dyn Error + Send + Sync>> {
        let values: HashMap<String, Value> =
            update.values.into_iter().map(|(name, value)| (name, to_json(value))).collect();
        let body = json!({
            "TableName": "records",
            "Key": {"id": {"S": update.id}},
            "UpdateExpression": update.expression,
            "ConditionExpression": update.condition,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        });
        let (status, reply) = self.call("UpdateItem", &body)?;
        if status == 200 {
            return Ok(Updated::Done);
        }
        if reply["__type"].as_str().is_some_and(|kind| kind.ends_with("#ConditionalCheckFailedException")) {
            return Ok(Updated::Refused(reply["Item"].as_object().map(|item| {
                item.iter().map(|(name, value)| (name.clone(), from_json(value))).collect::<Item>()
            })));
        }
        Err(reply.to_string().into())
    }
}

impl Table for LocalTable {
    async fn update(&self, update: Update) -> Result<Updated, Box<dyn Error + Send + Sync>> {
        let table = *self;
        tokio::task::spawn_blocking(move || table.update(update)).await.unwrap()
    }
}

fn to_json(value: Attribute) -> Value {
    match value {
        Attribute::Text(text) => json!({"S": text}),
        Attribute::Number(number) => json!({"N": number.to_string()}),
        Attribute::Bytes(bytes) => json!({"B": BASE64.encode(bytes)}),
    }
}

fn from_json(value: &Value) -> Attribute {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let value = value.as_str().unwrap();
    match kind.as_str() {
        "S" => Attribute::Text(value.to_owned()),
        "N" => Attribute::Number(value.parse().unwrap()),
        "B" => Attribute::Bytes(BASE64.decode(value).unwrap()),
        other => panic!("an attribute of the type {other}"),
    }
}

pub(crate) struct OnDynamoDb {
    pub(super) store: DynamoDbStore<LocalTable>,
    table: LocalTable,
}

impl OnDynamoDb {
    pub(crate) fn new(server: &DynamoDb) -> Self {
        Self { store: DynamoDbStore::new(server.table), table: server.table }
    }

    async fn set(&self, attribute: &str, key: &Key) {
        let update = Update {
            id: format!("{}:{}:{}", key.scope().len(), key.scope(), key.name()),
            expression: format!("SET {attribute} = :zero"),
            condition: "attribute_exists(id)".to_owned(),
            values: [(":zero".to_owned(), Attribute::Number(0))].into(),
        };
        Table::update(&self.table, update).await.unwrap();
    }
}

impl Subject for OnDynamoDb {
    async fn end_lease(&self, key: &Key) {
        self.set("lease_end", key).await;
    }

    async fn expire(&self, key: &Key) {
        self.set("expires", key).await;
    }
}

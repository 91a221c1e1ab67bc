//! `outboxd.cleanup.archive.format=parquet`, and `outboxd cleanup --archive-format parquet`: what is deleted is in the files, as it was.

use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::start;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually_eq};
use crate::support::watcher::Watcher;

/// A column, two values, how the Parquet file stores it, and an expression for a value as [`text`] has it.
const COLUMNS: [(&str, [&str; 2], &str, &str); 22] = [
    (
        "id uuid NOT NULL",
        ["gen_random_uuid()", "gen_random_uuid()"],
        "REQUIRED FIXED_LEN_BYTE_ARRAY (16) id (UUID)",
        "replace(id::text, '-', '')",
    ),
    (
        "aggregatetype text",
        ["'order'", "'order'"],
        "OPTIONAL BYTE_ARRAY aggregatetype (STRING)",
        "aggregatetype",
    ),
    ("aggregateid varchar(20)", ["'1'", "'2'"], "OPTIONAL BYTE_ARRAY aggregateid (STRING)", "aggregateid"),
    ("type text", ["'Made'", "'Żółć'"], "OPTIONAL BYTE_ARRAY type (STRING)", "type"),
    (
        "payload json",
        ["E'{\\n  \"a\": [1, \"ü\"]\\n}'", "null"],
        "OPTIONAL BYTE_ARRAY payload (JSON)",
        "payload::text",
    ),
    ("more jsonb", ["'{\"a\": 1e400}'", "'null'"], "OPTIONAL BYTE_ARRAY more (JSON)", "more::text"),
    ("flag boolean", ["true", "null"], "OPTIONAL BOOLEAN flag", "flag::text"),
    ("two smallint NOT NULL", ["-32768", "32767"], "REQUIRED INT32 two (INTEGER(16,true))", "two::text"),
    ("four integer", ["-2147483648", "null"], "OPTIONAL INT32 four", "four::text"),
    ("eight bigint", ["9223372036854775807", "null"], "OPTIONAL INT64 eight", "eight::text"),
    ("single real", ["1.5", "'NaN'"], "OPTIONAL FLOAT single", "single::text"),
    ("double float8", ["-0.1", "null"], "OPTIONAL DOUBLE double", "double::text"),
    ("price numeric(8,2)", ["-123456.78", "0.05"], "OPTIONAL INT32 price (DECIMAL(8,2))", "price::text"),
    (
        "total numeric(38,4)",
        ["1234567890123456789012345678901234.5678", "null"],
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) total (DECIMAL(38,4))",
        "total::text",
    ),
    ("free numeric", ["1e-40", "null"], "OPTIONAL BYTE_ARRAY free (STRING)", "free::text"),
    (
        "day date",
        ["'0001-01-01'", "'9999-12-31'"],
        "OPTIONAL INT32 day (DATE)",
        "(day - date '1970-01-01')::text",
    ),
    (
        "local timestamp",
        ["'1969-12-31 23:59:59.999999'", "null"],
        "OPTIONAL INT64 local (TIMESTAMP(MICROS,false))",
        "(extract(epoch from local) * 1000000)::bigint::text",
    ),
    (
        "at timestamptz",
        ["'2026-07-01 12:00:00.5+05:30'", "null"],
        "OPTIONAL INT64 at (TIMESTAMP(MICROS,true))",
        "(extract(epoch from at) * 1000000)::bigint::text",
    ),
    (
        "until timestamptz",
        ["'infinity'", "'2026-01-01 00:00:00Z'"],
        "OPTIONAL BYTE_ARRAY until (STRING)",
        "case until when 'infinity' then 'infinity' else '2026-01-01 00:00:00+00' end",
    ),
    ("blob bytea", ["'\\x00ff'", "''"], "OPTIONAL BYTE_ARRAY blob", "encode(blob, 'hex')"),
    ("tags text[]", ["'{a,\"b c\",null}'", "null"], "OPTIONAL BYTE_ARRAY tags (STRING)", "tags::text"),
    ("padded char(4)", ["'ab'", "null"], "OPTIONAL BYTE_ARRAY padded (STRING)", "rpad(padded, 4)"),
];

const EXECUTE: [&str; 3] = ["--execute", "--also-before-slot", "--yes"];

fn text(field: &Field) -> Option<String> {
    Some(match field {
        Field::Null => return None,
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => bytes.data().iter().map(|byte| format!("{byte:02x}")).collect(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Date(days) => days.to_string(),
        Field::TimestampMicros(us) => us.to_string(),
        other => other.to_string(),
    })
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

fn read(path: &Path) -> Vec<Vec<Option<String>>> {
    let rows = open(path);
    let rows = rows.get_row_iter(None).unwrap();
    let mut rows: Vec<Vec<_>> =
        rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| text(field)).collect()).collect();
    rows.sort();
    rows
}

fn schema(path: &Path) -> String {
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, open(path).metadata().file_metadata().schema());
    String::from_utf8(text).unwrap()
}

/// Returns the names of the archives in the folder.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains("public.")).collect();
    names.sort();
    names
}

fn command(folder: &Path, config: &Config, more: &[&str]) -> Value {
    let file = folder.join("outbox.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let (file, into) = (file.display().to_string(), folder.display().to_string());
    let arguments =
        [&["cleanup", "-c", &file, "--json", "--archive-folder", &into], &EXECUTE[..], more].concat();
    let mut process = Relay::command(&arguments);
    assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
    serde_json::from_str(&process.stdout()).unwrap()
}

#[test]
fn a_parquet_file_has_the_rows_of_the_table_with_its_types() {
    let columns = COLUMNS.map(|(column, ..)| column).join(", ");
    let server = start(18);
    let db = Outbox::create_bare(&server, &format!("CREATE TABLE outbox ({columns})"));
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    for row in 0..2 {
        let values = COLUMNS.map(|(_, values, ..)| values[row]).join(", ");
        db.execute(&format!("INSERT INTO outbox VALUES ({values})"));
    }
    let expressions = COLUMNS.map(|(.., expression)| expression).join(", ");
    let rows = db.query(&format!("SELECT ARRAY[{expressions}] FROM outbox"), &[]);
    let mut expected: Vec<Vec<Option<String>>> = rows.iter().map(|row| row.get(0)).collect();
    expected.sort();

    let done = command(folder.folder(), &config, &["--archive-format", "parquet"]);
    assert_eq!(done["tables"][0]["deleted"], 2);
    let file = Path::new(done["tables"][0]["file"].as_str().unwrap());
    assert_eq!(read(file), expected);
    let fields = COLUMNS.map(|(_, _, field, _)| format!("  {field};\n")).concat();
    assert_eq!(schema(file), format!("message row {{\n{fields}}}\n"));
    assert_eq!(names(folder.folder()).len(), 1, "{:?}", names(folder.folder()));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_a_relay_has_begun_is_one_file_with_every_row_once() {
    let server = start(15);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let into = folder.folder().display().to_string();
    let config = with(
        db.config(kafka()),
        &[
            ("outboxd.cleanup.enable", "true"),
            ("outboxd.cleanup.before.slot", "delete"),
            ("outboxd.cleanup.interval.ms", "100"),
            ("outboxd.cleanup.batch.pause.ms", "0"),
            ("outboxd.cleanup.batch.rows", "7"),
            ("outboxd.cleanup.archive.folder", &into),
            ("outboxd.cleanup.archive.format", "parquet"),
            ("status.update.interval.ms", "100"),
        ],
    );
    let rows = || db.query("SELECT FROM outbox", &[]).len();
    let insert = |from: u32| {
        db.execute(&format!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type)
             SELECT gen_random_uuid(), 'order', n::text, 'Made' FROM generate_series({from}, {from} + 39) n"
        ));
    };
    for from in [100, 200] {
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        insert(from);
        eventually_eq(DEADLINE, &0, rows);
        relay.kill();
        // The next one continues with it.
        assert!(matches!(&names(folder.folder())[..], [name] if name.ends_with(".parquet.ndjson")));
    }
    // Half of a Parquet file, as a crash leaves it.
    let segment = names(folder.folder()).remove(0);
    let part = format!(".{}.part", segment.strip_suffix(".ndjson").unwrap());
    fs::write(folder.folder().join(part), "PAR1").unwrap();
    let relay = Relay::start(&with(config.clone(), &[("outboxd.cleanup.enable", "false")]));
    db.wait_until_streaming();
    command(folder.folder(), &config, &["--archive-format", "parquet"]);
    let [name] = &names(folder.folder())[..] else { panic!("{:?}", names(folder.folder())) };
    assert_eq!(Some(name.as_str()), segment.strip_suffix(".ndjson"));
    let ids: Vec<_> =
        read(&folder.folder().join(name)).into_iter().map(|mut row| row.remove(2).unwrap()).collect();
    let mut ids: Vec<u32> = ids.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (100..140).chain(200..240).collect::<Vec<_>>());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_partition_that_goes_is_a_parquet_file() {
    let server = start(18);
    let db = Outbox::create_bare(
        &server,
        "CREATE TABLE outbox (id uuid NOT NULL, aggregatetype text, aggregateid text, type text, payload jsonb, n bigint NOT NULL)
             PARTITION BY RANGE (n);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (100);
         CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (100) TO (200)",
    );
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, n)
         SELECT gen_random_uuid(), 'order', n::text, 'Made', n FROM generate_series(96, 104) n",
    );
    let done = command(folder.folder(), &config, &["--archive-format", "parquet", "--partitions", "drop"]);
    let [step] = &done["partitions"].as_array().unwrap()[..] else { panic!("{done}") };
    assert_eq!((&step["action"], &step["rows"]), (&"dropped".into(), &4.into()), "{done}");
    let numbers: Vec<_> = read(Path::new(step["file"].as_str().unwrap()))
        .into_iter()
        .map(|mut row| row.remove(5).unwrap())
        .collect();
    assert_eq!(
        numbers.into_iter().collect::<std::collections::BTreeSet<_>>(),
        (96..100).map(|n| n.to_string()).collect()
    );
    assert_eq!(names(folder.folder()).len(), 1, "{:?}", names(folder.folder()));
    assert_eq!(relay.stop(), 0);
}

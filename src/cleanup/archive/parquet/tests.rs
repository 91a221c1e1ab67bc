//! Rows become lines, a segment, a Parquet file, and rows again.

use std::fs::File;
use std::path::Path;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::{Field, RowAccessor as _};
use proptest::prelude::*;

use super::*;
use crate::cleanup::archive::column::Kind;
use crate::cleanup::archive::segment::Header;

type Row = Vec<Option<String>>;

fn column(name: &str, kind: Kind, nullable: bool) -> Column {
    Column { name: name.to_owned(), kind, nullable }
}

/// Returns a line as PostgreSQL writes it with the expression.
fn line(columns: &[Column], row: &Row) -> String {
    let cells = columns.iter().zip(row).map(|(column, cell)| {
        let cell = cell.clone().map_or(serde_json::Value::Null, serde_json::Value::String);
        (column.name.clone(), cell)
    });
    serde_json::Value::Object(cells.collect()).to_string()
}

fn segment(folder: &Path, columns: &[Column], rows: &[Row]) -> Segment {
    let header = Header { table: "public.outbox".to_owned(), columns: columns.to_vec(), since: Some(0) };
    let segment = Segment::open(folder, header).unwrap();
    let lines: Vec<_> = rows.iter().map(|row| line(columns, row)).collect();
    segment.append(&lines).unwrap();
    segment
}

/// Returns the file of a segment, and the columns that it got.
fn converted(columns: &[Column], rows: &[Row]) -> (SerializedFileReader<File>, Vec<Column>) {
    let folder = tempfile::tempdir().unwrap();
    let segment = segment(folder.path(), columns, rows);
    let survey = survey(&segment, &mut |_| Ok(())).unwrap();
    let path = folder.path().join("a.parquet");
    write(&segment, &survey, &File::create(&path).unwrap(), &mut |_| Ok(())).unwrap();
    assert_eq!(digest(&path), Some(survey.digest));
    (SerializedFileReader::new(File::open(path).unwrap()).unwrap(), survey.columns)
}

/// Returns the rows of the file, as PostgreSQL would write them.
fn read(reader: &SerializedFileReader<File>, columns: &[Column]) -> Vec<Row> {
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let cells = row.get_column_iter().zip(columns);
        cells.map(|((_, field), column)| text(field, column.kind)).collect()
    })
    .collect()
}

fn text(field: &Field, kind: Kind) -> Option<String> {
    let second = 1_000_000;
    let time = |us: i64| jiff::Timestamp::new(us.div_euclid(second), 0).unwrap();
    let fraction = |us: i64| format!("{:06}", us.rem_euclid(second));
    Some(match (kind, field) {
        (_, Field::Null) => return None,
        (Kind::Bool, Field::Bool(value)) => if *value { "t" } else { "f" }.to_owned(),
        (Kind::Int2, Field::Short(value)) => value.to_string(),
        (Kind::Int4, Field::Int(value)) => value.to_string(),
        (Kind::Int8, Field::Long(value)) => value.to_string(),
        (Kind::Float4, Field::Float(value)) => value.to_string(),
        (Kind::Float8, Field::Double(value)) => value.to_string(),
        (Kind::Date, Field::Date(days)) => {
            let day = jiff::civil::date(1970, 1, 1) + jiff::Span::new().days(*days);
            day.to_string()
        }
        (Kind::Timestamp | Kind::Timestamptz, Field::TimestampMicros(us)) => {
            let zone = if kind == Kind::Timestamptz { "+00" } else { "" };
            time(*us).strftime("%Y-%m-%d %H:%M:%S").to_string() + "." + &fraction(*us) + zone
        }
        (Kind::Uuid, Field::Bytes(bytes)) => uuid::Uuid::from_slice(bytes.data()).unwrap().to_string(),
        (Kind::Bytea, Field::Bytes(bytes)) => {
            bytes.data().iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
        }
        (Kind::Json | Kind::Text, Field::Str(text)) => text.clone(),
        (Kind::Decimal { precision, scale }, Field::Decimal(value)) => {
            assert_eq!((value.precision(), value.scale()), (precision, scale));
            decimal(value.data(), scale)
        }
        other => panic!("{other:?}"),
    })
}

fn decimal(bytes: &[u8], scale: i32) -> String {
    let negative = bytes[0] & 0x80 != 0;
    let unscaled =
        bytes.iter().fold(if negative { -1_i128 } else { 0 }, |all, byte| (all << 8) | i128::from(*byte));
    let scale = usize::try_from(scale).unwrap();
    let digits = format!("{:0>1$}", unscaled.unsigned_abs(), scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if negative { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Returns each kind, with values as PostgreSQL writes them.
fn cells() -> [(Kind, BoxedStrategy<String>); 15] {
    let numeric = |digits: &str| proptest::string::string_regex(digits).unwrap();
    let unsigned = |text: String| {
        if text.bytes().all(|c| matches!(c, b'-' | b'0' | b'.')) { text.replace('-', "") } else { text }
    };
    let number = |digits: &str| numeric(digits).prop_map(unsigned).boxed();
    let year = 1_i64..=9_999;
    let time = (year.clone(), 1..=12, 1..=28, 0..24, 0..60, 0..60, 0..1_000_000)
        .prop_map(|(y, mo, d, h, m, s, us)| format!("{y:04}-{mo:02}-{d:02} {h:02}:{m:02}:{s:02}.{us:06}"));
    let date = (year, 1..=12, 1..=28).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}"));
    let bytes = proptest::collection::vec(any::<u8>(), 0..20)
        .prop_map(|all| all.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")));
    [
        (Kind::Bool, any::<bool>().prop_map(|value| if value { "t" } else { "f" }.to_owned()).boxed()),
        (Kind::Int2, any::<i16>().prop_map(|value| value.to_string()).boxed()),
        (Kind::Int4, any::<i32>().prop_map(|value| value.to_string()).boxed()),
        (Kind::Int8, any::<i64>().prop_map(|value| value.to_string()).boxed()),
        (Kind::Float4, any::<f32>().prop_map(|value| value.to_string()).boxed()),
        (Kind::Float8, any::<f64>().prop_map(|value| value.to_string()).boxed()),
        (Kind::Date, date.boxed()),
        (Kind::Timestamp, time.clone().boxed()),
        (Kind::Timestamptz, time.prop_map(|time| time + "+00").boxed()),
        (Kind::Uuid, any::<u128>().prop_map(|value| uuid::Uuid::from_u128(value).to_string()).boxed()),
        (Kind::Bytea, bytes.boxed()),
        (Kind::Text, any::<String>().boxed()),
        (Kind::Decimal { precision: 7, scale: 2 }, number("-?(0|[1-9][0-9]{0,4})\\.[0-9]{2}")),
        (Kind::Decimal { precision: 18, scale: 0 }, number("-?(0|[1-9][0-9]{0,17})")),
        (Kind::Decimal { precision: 38, scale: 10 }, number("-?(0|[1-9][0-9]{0,27})\\.[0-9]{10}")),
    ]
}

fn table() -> impl Strategy<Value = (Vec<Column>, Vec<Row>)> {
    let kind = (0..15_usize, any::<bool>()).prop_map(|(at, nullable)| (cells()[at].clone(), nullable));
    proptest::collection::vec(kind, 1..6).prop_flat_map(|kinds| {
        let columns: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(at, ((kind, _), nullable))| column(&format!("c{at} \"ü.\""), *kind, *nullable))
            .collect();
        let row: Vec<_> = kinds
            .into_iter()
            .map(|((_, cell), nullable)| {
                let filled = cell.clone().prop_map(Some);
                if nullable { prop_oneof![Just(None), filled].boxed() } else { filled.boxed() }
            })
            .collect();
        (Just(columns), proptest::collection::vec(row, 1..12))
    })
}

proptest! {
    #[test]
    fn rows_are_read_back_as_they_were((columns, rows) in table()) {
        let (reader, found) = converted(&columns, &rows);
        prop_assert_eq!(&found, &columns);
        prop_assert_eq!(read(&reader, &columns), rows);
    }

    #[test]
    fn any_text_of_any_kind_is_kept(
        texts in proptest::collection::vec(any::<Option<String>>(), 1..5),
        chosen: proptest::sample::Index,
    ) {
        let kinds = cells();
        let columns = [column("a", kinds[chosen.index(kinds.len())].0, true)];
        let rows: Vec<Row> = texts.iter().map(|text| vec![text.clone()]).collect();
        let (reader, found) = converted(&columns, &rows);
        if found[0].kind == Kind::Text {
            prop_assert_eq!(read(&reader, &found), rows);
        }
    }
}

#[test]
fn what_has_no_place_makes_a_column_of_texts() {
    let columns = [column("at", Kind::Timestamptz, false), column("n", Kind::Int4, false)];
    let cell = |text: &str| Some(text.to_owned());
    let rows: Vec<Row> = vec![
        vec![cell("2026-01-01 00:00:00+00"), cell("1")],
        vec![cell("infinity"), None],
        vec![cell("2026-01-01 00:00:01+00"), cell("3")],
    ];
    let (reader, found) = converted(&columns, &rows);
    // A null in a column that is NOT NULL, whose constraint is not validated.
    assert_eq!(found, [column("at", Kind::Text, false), column("n", Kind::Int4, true)]);
    assert_eq!(read(&reader, &found), rows);
}

#[test]
fn the_schema_says_what_the_values_mean() {
    let nullable = |(at, (kind, _)): (usize, (Kind, _))| column(&format!("c{at}"), kind, at % 2 == 0);
    let columns: Vec<_> =
        cells().into_iter().enumerate().map(nullable).chain([column("j", Kind::Json, false)]).collect();
    let mut text = Vec::new();
    ::parquet::schema::printer::print_schema(&mut text, &schema(&columns).unwrap());
    let expected = "message row {
  OPTIONAL BOOLEAN c0;
  REQUIRED INT32 c1 (INTEGER(16,true));
  OPTIONAL INT32 c2;
  REQUIRED INT64 c3;
  OPTIONAL FLOAT c4;
  REQUIRED DOUBLE c5;
  OPTIONAL INT32 c6 (DATE);
  REQUIRED INT64 c7 (TIMESTAMP(MICROS,false));
  OPTIONAL INT64 c8 (TIMESTAMP(MICROS,true));
  REQUIRED FIXED_LEN_BYTE_ARRAY (16) c9 (UUID);
  OPTIONAL BYTE_ARRAY c10;
  REQUIRED BYTE_ARRAY c11 (STRING);
  OPTIONAL INT32 c12 (DECIMAL(7,2));
  REQUIRED INT64 c13 (DECIMAL(18,0));
  OPTIONAL FIXED_LEN_BYTE_ARRAY (16) c14 (DECIMAL(38,10));
  REQUIRED BYTE_ARRAY j (JSON);
}
";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn row_groups_have_a_limit() {
    let columns = [column("a", Kind::Text, false)];
    let wide: Vec<Row> = (0..3).map(|_| vec![Some("x".repeat(12 << 20))]).collect();
    let narrow: Vec<Row> = (0..100_001).map(|n| vec![Some(n.to_string())]).collect();
    for (rows, groups) in [(wide, vec![2, 1]), (narrow, vec![100_000, 1])] {
        let (reader, _) = converted(&columns, &rows);
        let found: Vec<_> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(found, groups);
        let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
        assert_eq!(Some(last.get_string(0).unwrap()), rows.last().unwrap()[0].as_ref());
    }
}

#[test]
fn a_line_that_was_changed_is_reported() {
    let columns = [column("a", Kind::Text, false)];
    for wrong in ["{}", "{\"a\":1}", "{\"b\":\"1\"}", "{\"a\":\"1\",\"b\":\"2\"}", "x"] {
        let folder = tempfile::tempdir().unwrap();
        let segment = segment(folder.path(), &columns, &[vec![Some("1".to_owned())]]);
        segment.append(&[wrong.to_owned()]).unwrap();
        let error = survey(&segment, &mut |_| Ok(())).unwrap_err();
        assert!(matches!(error, ConvertError::Line(3)), "{wrong}: {error:?}");
    }
}

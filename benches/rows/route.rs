//! The EventRouter with its converters: a decoded row to a record.

use std::hint::black_box;

use change_events::outbox::{Encoder, OutboxTable, RouteContext, RouteError};
use connect_data::converter::ConvertError;
use connect_data::converter::registered::SchemaId;
use criterion::Criterion;
use pg_replication::pgoutput::Tuple;

use crate::input;
use crate::measured::step;

pub(crate) const NOW: RouteContext = RouteContext { now_ms: 1_700_000_000_123 };

const JSON: (&str, &str) = ("value.converter", "org.apache.kafka.connect.json.JsonConverter");
const STRING: (&str, &str) = ("value.converter", "org.apache.kafka.connect.storage.StringConverter");
const AVRO: (&str, &str) = ("value.converter", "io.confluent.connect.avro.AvroConverter");
const REGISTRY: (&str, &str) = ("value.converter.schema.registry.url", "http://127.0.0.1:1");
const NO_SCHEMAS: (&str, &str) = ("value.converter.schemas.enable", "false");
const EXPAND: (&str, &str) = ("table.expand.json.payload", "true");
const ENVELOPE: (&str, &str) = ("table.fields.additional.placement", "type:envelope");
const HEADERS: (&str, &str) = ("table.fields.additional.placement", "type:header");

/// Name and options.
const CASES: [(&str, &[(&str, &str)]); 9] = [
    ("route/plain", &[]),
    ("route/string", &[STRING, HEADERS]),
    ("route/json", &[JSON, NO_SCHEMAS]),
    ("route/json with schemas", &[JSON]),
    ("route/expanded", &[JSON, NO_SCHEMAS, EXPAND]),
    ("route/expanded with schemas", &[JSON, EXPAND]),
    ("route/envelope", &[JSON, NO_SCHEMAS, ENVELOPE]),
    ("route/avro", &[AVRO, REGISTRY]),
    ("route/avro envelope", &[AVRO, REGISTRY, ENVELOPE]),
];

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = input::rows();
    let tuples: Vec<_> = rows.iter().map(input::tuple).collect();
    for (name, options) in CASES {
        let table = input::table(options);
        let mut encoder = Encoder::default();
        learn(&table, &tuples, &mut encoder);
        step(criterion, name, input::ROWS, || {
            for tuple in &tuples {
                black_box(table.route(black_box(tuple), NOW, &mut encoder).unwrap());
            }
        });
    }
}

/// Gives each schema an id, as the registry would.
fn learn(table: &OutboxTable, tuples: &[Tuple<'_>], encoder: &mut Encoder) {
    for tuple in tuples {
        while let Some(registration) = unregistered(table.route(tuple, NOW, encoder)) {
            encoder.learn(*registration, SchemaId(1));
        }
    }
}

fn unregistered<T>(
    routed: Result<T, RouteError>,
) -> Option<Box<connect_data::converter::registered::Registration>> {
    match routed {
        Ok(_) => None,
        Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
            Some(registration)
        }
        Err(error) => panic!("{error}"),
    }
}

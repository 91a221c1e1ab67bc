use super::description;
use connect_data::column::{ColumnCodec, ColumnOptions};
use connect_data::converter::registered::SchemaIds;
use connect_data::converter::{Converter, Destination, JsonConverter};
use pg_replication::pgoutput::ColumnValue;

// A type's name, a tab, and a value of it as the server writes it.
pub fn column_value(bytes: &[u8]) {
    let Some(tab) = bytes.iter().position(|byte| *byte == b'\t') else { return };
    let Ok(kind) = std::str::from_utf8(&bytes[..tab]) else { return };
    let Ok(codec) = ColumnCodec::new(&description("c", kind), &ColumnOptions::default(), None) else {
        return;
    };
    let Ok(value) = codec.decode(ColumnValue::Text(&bytes[tab + 1..])) else { return };
    let (mut scratch, mut schemas) = (Vec::new(), SchemaIds::default());
    let mut into = Destination { scratch: &mut scratch, topic: "", schemas: &mut schemas };
    let converter = Converter::Json(JsonConverter::default());
    let Ok(encoded) = converter.convert(Some(codec.schema()), &value, &mut into) else { return };
    if let Some(json) = encoded.resolve(&scratch) {
        assert!(
            serde_json::from_slice::<serde_json::Value>(json).is_ok(),
            "{}",
            String::from_utf8_lossy(json)
        );
    }
}

use std::collections::HashMap;
use std::sync::Arc;

use super::json::{DecimalFormat, JsonConverter, write_before_payload};
use crate::connect::Schema;

/// What the texts may take in all. With more, all are forgotten and written again.
const BYTES_MAX: usize = 16 << 20;

/// Schemas as `JsonConverter` writes them, each written once and copied in front of every value that has it. They are told
/// apart by their addresses. Each has a text for either way of writing decimals, which may stand in defaults.
#[derive(Debug, Default)]
pub(super) struct SchemaTexts {
    written: HashMap<(usize, DecimalFormat), Written>,
    bytes: usize,
}

#[derive(Debug)]
struct Written {
    text: Box<[u8]>,
    /// Kept, so that no other schema comes to have its address.
    _schema: Arc<Schema>,
}

impl SchemaTexts {
    /// What stands before a value of this schema, as the converter writes it.
    pub(super) fn of(&mut self, schema: &Arc<Schema>, converter: JsonConverter) -> &[u8] {
        let address = (Arc::as_ptr(schema).addr(), converter.decimal_format);
        let Self { written, bytes } = self;
        if *bytes >= BYTES_MAX && !written.contains_key(&address) {
            written.clear();
            *bytes = 0;
        }
        let known = written.entry(address).or_insert_with(|| {
            let mut text = Vec::new();
            write_before_payload(&mut text, converter, Some(schema));
            *bytes = bytes.saturating_add(text.len());
            Written { text: text.into(), _schema: Arc::clone(schema) }
        });
        &known.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Kind;

    #[test]
    fn each_schema_has_its_own_text_and_there_is_a_limit() {
        let mut texts = SchemaTexts::default();
        let [plain, optional] = [false, true].map(|it| Arc::new(Schema::new(Kind::String).optional(it)));
        for _ in 0..2 {
            assert_eq!(
                texts.of(&plain, JsonConverter::PLAIN),
                br#"{"schema":{"type":"string","optional":false},"payload":"#
            );
            assert_eq!(
                texts.of(&optional, JsonConverter::PLAIN),
                br#"{"schema":{"type":"string","optional":true},"payload":"#
            );
        }
        assert_eq!(texts.written.len(), 2);
        let large = |n: usize| {
            let name = format!("{n}{}", "n".repeat(BYTES_MAX / 4));
            Arc::new(Schema { name: Some(name.into()), ..Schema::new(Kind::String) })
        };
        for n in 0..12 {
            texts.of(&large(n), JsonConverter::PLAIN);
            assert!(texts.bytes <= BYTES_MAX + BYTES_MAX / 2, "{}", texts.bytes);
        }
        assert!(texts.written.len() <= 4);
    }
}

//! Cache of schemas as JSON.

use std::collections::HashMap;
use std::sync::Arc;

use super::json::{DecimalFormat, JsonConverter, write_before_payload};
use crate::Schema;

/// Size limit of all texts together. At the limit all texts are dropped and written again.
const BYTES_MAX: usize = 16 << 20;

/// Cache of schemas as `JsonConverter` writes them. Each is written once and copied in front of every value that has it. The key
/// is the schema's address, and the form of decimals, because default values can contain decimals.
#[derive(Debug, Default)]
pub(super) struct SchemaTexts {
    written: HashMap<(usize, DecimalFormat), Written>,
    bytes: usize,
}

#[derive(Debug)]
struct Written {
    text: Box<[u8]>,
    /// Keeps the address in use, so that no other schema can have it.
    _schema: Arc<Schema>,
}

impl SchemaTexts {
    /// Returns the text that precedes a value of this schema.
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
    use crate::Kind;

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

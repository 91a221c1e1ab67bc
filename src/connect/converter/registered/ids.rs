use std::collections::HashMap;
use std::sync::Arc;

use super::SchemaType;
use crate::connect::Schema;
use crate::connect::converter::schema_texts::SchemaTexts;

/// The number that the registry gave a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemaId(pub u32);

/// The part of a record that a schema is of. Each has a converter, and so a registry, of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl Side {
    /// The option that names the converter of this part.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
        }
    }
}

/// A schema whose id must be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// Key or value.
    pub side: Side,
    /// The record's topic.
    pub topic: String,
    /// The subject under which the registry keeps the schema.
    pub subject: String,
    /// The language of its text.
    pub kind: SchemaType,
    /// The schema, just as the Java converter writes it: registries compare texts.
    pub text: String,
    /// The Connect schema that it was made of; `None` is a value without one.
    pub schema: Option<Arc<Schema>>,
    /// `schemas.cache.config`: how many ids are remembered.
    pub ids_max: usize,
}

// Never compared where it matters: only tests look whether two errors are the same.
impl Eq for Registration {}

/// What is known of schemas: the registries' ids, and how they are written.
#[derive(Debug, Default)]
pub struct SchemaIds {
    keys: Known,
    values: Known,
    pub(in crate::connect::converter) texts: SchemaTexts,
}

/// A schema that an id is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meant<'s> {
    /// `None` is that of a value without one.
    pub(super) schema: Option<&'s Schema>,
    /// The same, when many values have it.
    pub(super) shared: Option<&'s Arc<Schema>>,
}

impl<'s> Meant<'s> {
    pub(super) fn shared(schema: &'s Arc<Schema>) -> Self {
        Self { schema: Some(schema), shared: Some(schema) }
    }

    /// Whether it is the very same one.
    fn is(self, known: Option<&Arc<Schema>>) -> bool {
        self.shared.zip(known).is_some_and(|(meant, known)| Arc::ptr_eq(meant, known))
    }
}

/// By topic, the schema that was used last first: a topic has few schemas, and most rows have the last row's.
#[derive(Debug, Default)]
struct Known {
    topics: HashMap<String, Vec<Entry>>,
    count: usize,
}

#[derive(Debug)]
struct Entry {
    schema: Option<Arc<Schema>>,
    text: String,
    id: SchemaId,
}

impl SchemaIds {
    /// Remembers an id. When there are too many, all are forgotten and asked for again.
    pub fn learn(&mut self, registration: Registration, id: SchemaId) {
        let Registration { side, topic, text, schema, ids_max, .. } = registration;
        let known = self.side(side);
        if known.count >= ids_max {
            *known = Known::default();
        }
        known.count = known.count.saturating_add(1);
        known.topics.entry(topic).or_default().insert(0, Entry { schema, text, id });
    }

    /// The id of a schema.
    pub(super) fn find(&mut self, side: Side, topic: &str, meant: Meant<'_>) -> Option<SchemaId> {
        let entries = self.side(side).topics.get_mut(topic)?;
        // Most often it is the one that was found last. To compare two schemas takes as long as to write a row.
        if let Some(first) = entries.first().filter(|first| meant.is(first.schema.as_ref())) {
            return Some(first.id);
        }
        let at = entries.iter().position(|entry| meant.is(entry.schema.as_ref()));
        let at = at.or_else(|| entries.iter().position(|entry| entry.schema.as_deref() == meant.schema))?;
        let entry = moved_to_front(entries, at)?;
        if let Some(shared) = meant.shared {
            entry.schema = Some(Arc::clone(shared));
        }
        Some(entry.id)
    }

    /// The id of a schema, by its text.
    pub(super) fn find_text(&mut self, side: Side, topic: &str, text: &str) -> Option<SchemaId> {
        let entries = self.side(side).topics.get_mut(topic)?;
        let at = entries.iter().position(|entry| entry.text == text)?;
        moved_to_front(entries, at).map(|entry| entry.id)
    }

    const fn side(&mut self, side: Side) -> &mut Known {
        match side {
            Side::Key => &mut self.keys,
            Side::Value => &mut self.values,
        }
    }
}

fn moved_to_front(entries: &mut [Entry], at: usize) -> Option<&mut Entry> {
    entries.get_mut(..=at)?.rotate_right(1);
    entries.first_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Kind;

    fn registration(side: Side, topic: &str, schema: Schema, ids_max: usize) -> Registration {
        let text = format!("{schema:?}");
        Registration {
            side,
            topic: topic.into(),
            subject: format!("{topic}-x"),
            kind: SchemaType::Avro,
            text,
            schema: Some(Arc::new(schema)),
            ids_max,
        }
    }

    const fn meant(schema: &Schema) -> Meant<'_> {
        Meant { schema: Some(schema), shared: None }
    }

    #[test]
    fn ids_are_found_by_side_topic_and_schema() {
        let (string, int) = (Schema::new(Kind::String), Schema::new(Kind::Int32));
        let mut ids = SchemaIds::default();
        let cases =
            [(Side::Key, "a", &string, 1), (Side::Value, "a", &string, 2), (Side::Value, "a", &int, 3)];
        for (side, topic, schema, id) in cases {
            assert_eq!(ids.find(side, topic, meant(schema)), None);
            ids.learn(registration(side, topic, schema.clone(), 10), SchemaId(id));
        }
        for (side, topic, schema, id) in cases {
            assert_eq!(ids.find(side, topic, meant(schema)), Some(SchemaId(id)));
            let shared = Arc::new(schema.clone());
            for _ in 0..2 {
                assert_eq!(ids.find(side, topic, Meant::shared(&shared)), Some(SchemaId(id)));
            }
        }
        assert_eq!(ids.find(Side::Value, "b", meant(&string)), None);
    }

    #[test]
    fn a_schema_of_the_same_text_is_found_by_it() {
        let known = registration(Side::Value, "a", Schema::new(Kind::String), 10);
        let text = known.text.clone();
        let mut ids = SchemaIds::default();
        ids.learn(known, SchemaId(7));
        let mut other = Schema::new(Kind::String);
        other.doc = Some("not in the text");
        assert_eq!(ids.find(Side::Value, "a", meant(&other)), None);
        assert_eq!(ids.find_text(Side::Value, "a", &text), Some(SchemaId(7)));
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let mut ids = SchemaIds::default();
        for version in 0..100 {
            let mut schema = Schema::new(Kind::String);
            schema.version = Some(version);
            ids.learn(registration(Side::Value, "a", schema, 3), SchemaId(1));
            assert!(ids.values.topics.values().map(Vec::len).sum::<usize>() <= 3);
        }
    }
}

//! Ids of schemas, and requests for them.

use std::collections::HashMap;
use std::sync::Arc;

use super::SchemaType;
use crate::Schema;
use crate::converter::schema_texts::SchemaTexts;

/// Id that the registry gave a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemaId(pub u32);

/// Part of a record that has a schema. Each part has a separate converter, and thus a separate registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl Side {
    /// Returns the option that names the converter of this part.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
        }
    }
}

/// A schema whose id must be requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// Key or value.
    pub side: Side,
    /// Topic of the record.
    pub topic: String,
    /// Subject under which the registry stores the schema.
    pub subject: String,
    /// Language of the text.
    pub kind: SchemaType,
    /// Text of the schema, exactly as the Java converter writes it, because registries compare texts.
    pub text: String,
    /// Connect schema of the text; `None` for a value without one.
    pub schema: Option<Arc<Schema>>,
    /// `schemas.cache.config`: maximum number of remembered ids.
    pub ids_max: usize,
}

// Only tests compare errors; equality has no effect at run time.
impl Eq for Registration {}

/// Cache of schemas: their ids in the registries, and their texts in JSON.
#[derive(Debug, Default)]
pub struct SchemaIds {
    keys: Known,
    values: Known,
    pub(in crate::converter) texts: SchemaTexts,
}

/// A schema whose id is looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meant<'s> {
    /// `None` for a value without a schema.
    pub(super) schema: Option<&'s Schema>,
    /// The same schema, if it is shared by many values.
    pub(super) shared: Option<&'s Arc<Schema>>,
}

impl<'s> Meant<'s> {
    pub(super) fn shared(schema: &'s Arc<Schema>) -> Self {
        Self { schema: Some(schema), shared: Some(schema) }
    }

    /// Reports whether `known` is the same allocation.
    fn is(self, known: Option<&Arc<Schema>>) -> bool {
        self.shared.zip(known).is_some_and(|(meant, known)| Arc::ptr_eq(meant, known))
    }
}

/// Schemas by topic, the most recently used first: a topic has few schemas, and most rows have the schema of the previous row.
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
    /// Remembers an id. At the limit all ids of this part are dropped and must be requested again.
    pub fn learn(&mut self, registration: Registration, id: SchemaId) {
        let Registration { side, topic, text, schema, ids_max, .. } = registration;
        let known = self.side(side);
        if known.count >= ids_max {
            *known = Known::default();
        }
        known.count = known.count.saturating_add(1);
        known.topics.entry(topic).or_default().insert(0, Entry { schema, text, id });
    }

    /// Returns the id of a schema.
    pub(super) fn find(&mut self, side: Side, topic: &str, meant: Meant<'_>) -> Option<SchemaId> {
        let entries = self.side(side).topics.get_mut(topic)?;
        // Usually the schema is the most recently found one. Comparing two schemas takes as long as writing a row.
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

    /// Returns the id of the schema with this text.
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
    use crate::Kind;

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

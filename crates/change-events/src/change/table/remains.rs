//! Raw records of rows that make no event.

use serde_json::{Map, Value as Json};

use super::{BoundColumn, ChangeTable};
use crate::change::row_change::{Row, RowChange};
use crate::outbox::{Encoder, RawRecord, shown_as_json};
use connect_data::converter::Destination;

impl ChangeTable {
    /// Returns the raw content of a change that makes no event: the key, and the values of its rows as the
    /// server wrote them. Columns that no event shows are excluded, and masks apply here too.
    pub fn raw_record(&self, change: RowChange<'_, '_>, encoder: &mut Encoder) -> RawRecord {
        let (op, before, after) = match change {
            RowChange::Insert(new) => ("c", None, Some(new)),
            RowChange::Update(old, new) => ("u", old.map(|old| old.columns()), Some(new)),
            RowChange::Delete(old) => ("d", Some(old.columns()), None),
            RowChange::Truncate => ("t", None, None),
        };
        let mut value = Map::new();
        value.insert("op".to_owned(), op.into());
        for (name, row) in [("before", before), ("after", after)] {
            value.insert(name.to_owned(), row.map_or(Json::Null, |row| object(&self.columns, row)));
        }
        let key = after.or(before).and_then(|row| self.key_bytes(row, encoder));
        RawRecord::new(self.topic.clone(), key, Json::Object(value).to_string().into_bytes())
    }

    fn key_bytes(&self, row: Row<'_, '_>, encoder: &mut Encoder) -> Option<Vec<u8>> {
        let key = self.key.as_ref()?;
        let value = self.key_of(row.into()).ok()?;
        let (scratch, schemas) = encoder.parts();
        let mut into = Destination { scratch, topic: &self.topic, schemas };
        let bytes = self.connector.converters.key.convert_shared(&key.schema, &value, &mut into).ok()?;
        bytes.resolve(encoder.scratch()).map(<[u8]>::to_vec)
    }
}

fn object(columns: &[BoundColumn], row: Row<'_, '_>) -> Json {
    let mut object = Map::new();
    for column in columns {
        let value = row.get(column.index).and_then(|value| shown_as_json(&column.codec, *value));
        if let Some(value) = value {
            object.insert(column.name.clone(), value);
        }
    }
    Json::Object(object)
}

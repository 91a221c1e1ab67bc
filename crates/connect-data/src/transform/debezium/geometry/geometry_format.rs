//! Transform `GeometryFormatTransformer`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::geometries::{Geometry, Inside};
use super::wkb;
use crate::Value;
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::settings::Settings;

/// Transform `GeometryFormatTransformer`, which adds the reference system to well-known binary, or removes it.
#[derive(Debug)]
pub(in crate::transform) struct GeometryFormatTransformer {
    /// Mode: true removes the reference system, false adds it. As in Debezium, `wkb` adds it until the first geometry that
    /// has it already; from then on it is removed from all.
    takes_out: AtomicBool,
}

impl GeometryFormatTransformer {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Self {
        let takes_out = settings.one_of("format", &[("wkb", false), ("ewkb", true)], false);
        Self { takes_out: AtomicBool::new(takes_out) }
    }

    fn convert(&self, geometry: Geometry<'_, '_>) -> Result<(), Problem> {
        let Value::Bytes(bytes) = &*geometry.wkb else { return Ok(()) };
        let is_extended = wkb::is_extended(bytes);
        if is_extended {
            self.takes_out.store(true, Ordering::Relaxed);
        }
        let converted = match (self.takes_out.load(Ordering::Relaxed), geometry.srid) {
            (true, _) if is_extended => wkb::without_srid(bytes),
            (false, Some(srid)) => wkb::with_srid(bytes, srid),
            _ => return Ok(()),
        };
        let converted = converted.ok_or(Problem::Unreadable("a geometry"))?;
        *geometry.wkb = Value::Bytes(Cow::Owned(converted));
        Ok(())
    }
}

impl Transform for GeometryFormatTransformer {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if let (Some(schema), Value::Struct(values)) = (&record.value.schema, &mut record.value.value) {
            Inside::Structs.change_all(schema, values, &|geometry| self.convert(geometry))?;
        }
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

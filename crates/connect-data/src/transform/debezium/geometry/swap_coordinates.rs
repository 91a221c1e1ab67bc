//! Transform `SwapGeometryCoordinates`.

use std::borrow::Cow;

use super::geometries::{Geometry, Inside};
use super::wkb;
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::settings::Settings;
use crate::{Refused, Value};

/// Default reference systems. Their latitude and longitude are commonly written in the other order.
const USUAL: [i32; 3] = [4326, 3857, 4269];

/// Transform `SwapGeometryCoordinates`, which swaps X and Y in the geometries of some reference systems.
#[derive(Debug)]
pub(in crate::transform) struct SwapGeometryCoordinates {
    srids: Vec<i32>,
}

impl SwapGeometryCoordinates {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        if settings.raw("srids").is_none() {
            return Ok(Self { srids: USUAL.to_vec() });
        }
        let srids: Result<Vec<i32>, _> = settings.list("srids").iter().map(|srid| srid.parse()).collect();
        match srids {
            Ok(srids) if !srids.is_empty() => Ok(Self { srids }),
            _ => Err(settings.refuse("srids", "it must be a list of numbers such as 4326,3857")),
        }
    }

    fn swap(&self, geometry: Geometry<'_, '_>) -> Result<(), Problem> {
        let Value::Bytes(bytes) = &*geometry.wkb else { return Ok(()) };
        if geometry.srid.is_some_and(|srid| self.srids.contains(&srid)) {
            let swapped = wkb::swapped(bytes).ok_or(Problem::Unreadable("a geometry"))?;
            *geometry.wkb = Value::Bytes(Cow::Owned(swapped));
        }
        Ok(())
    }
}

impl Transform for SwapGeometryCoordinates {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if let (Some(schema), Value::Struct(values)) = (&record.value.schema, &mut record.value.value) {
            Inside::All.change_all(schema, values, &|geometry| self.swap(geometry))?;
        }
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

//! Transforms by their classes.

use std::sync::Arc;

use super::Transform;
use super::debezium::activate_tracing::ActivateTracingSpan;
use super::debezium::changed_state::ExtractChangedRecordState;
use super::debezium::extract_schema::ExtractSchemaToNewRecord;
use super::debezium::geometry::geometry_format::GeometryFormatTransformer;
use super::debezium::geometry::swap_coordinates::SwapGeometryCoordinates;
use super::debezium::header_to_value::HeaderToValue;
use super::debezium::logical_router::ToLogicalTopicRouter;
use super::debezium::partition_routing::PartitionRouting;
use super::debezium::record_size::EnforceRecordSize;
use super::debezium::schema_change_filter::SchemaChangeEventFilter;
use super::debezium::timescale::TimescaleDb;
use super::debezium::timezone::TimezoneConverter;
use super::debezium::unwrap::ExtractNewRecordState;
use super::debezium::vector_to_json::VectorToJsonConverter;
use super::fields::side::Side;
use super::kafka::cast::Cast;
use super::kafka::extract_field::ExtractField;
use super::kafka::flatten::Flatten;
use super::kafka::headers::{DropHeaders, HeaderFrom, InsertHeader};
use super::kafka::hoist_field::HoistField;
use super::kafka::insert_field::InsertField;
use super::kafka::mask_field::MaskField;
use super::kafka::replace_field::ReplaceField;
use super::kafka::schema_metadata::SetSchemaMetadata;
use super::kafka::timestamp_converter::TimestampConverter;
use super::kafka::topic_router::{Filter, RegexRouter, TimestampRouter};
use super::kafka::value_to_key::ValueToKey;
use super::key_field;
#[cfg(feature = "cel")]
use super::script::{FilterByExpression, RouteByExpression};
use super::settings::Settings;
use crate::Refused;
use crate::trace::SpanRules;

const KAFKA: &str = "org.apache.kafka.connect.transforms.";
const DEBEZIUM: &str = "io.debezium.transforms.";
const OURS: &str = "outboxd.transforms.";

/// Implementation of a transform's class.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Transform of records.
    Transform(Arc<dyn Transform>),
    /// ActivateTracingSpan, which does nothing until it gets a tracer.
    Spans(SpanRules),
    /// EventRouter, which is implemented elsewhere.
    EventRouter,
}

/// Creates the transform that `type` names.
pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<Step, Refused> {
    let class = settings.required("type")?;
    let class = class.trim();
    if matches!(class, "io.debezium.transforms.outbox.EventRouter" | "EventRouter") {
        return Ok(Step::EventRouter);
    }
    if class.ends_with("DecodeLogicalDecodingMessageContent") {
        let reason = "it stands before an EventRouter, and no other transform may stand beside the two";
        return Err(settings.refuse("type", reason));
    }
    if let Some(name) = class.strip_prefix(KAFKA) {
        return kafka(settings, name).map(Step::Transform);
    }
    if let Some(name) = class.strip_prefix(OURS) {
        return ours(settings, name).map(Step::Transform);
    }
    if class == "io.debezium.transforms.tracing.ActivateTracingSpan" {
        return Ok(Step::Spans(ActivateTracingSpan::read(settings)));
    }
    if class == "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb" {
        return TimescaleDb::read(settings).map(|transform| Step::Transform(Arc::new(transform)));
    }
    match class.strip_prefix(DEBEZIUM) {
        Some(name) => debezium(settings, name).map(Step::Transform),
        None => Err(unknown(settings)),
    }
}

fn kafka(settings: &mut Settings<'_, '_>, name: &str) -> Result<Arc<dyn Transform>, Refused> {
    if let Some((name, side)) = name.split_once('$') {
        let side = match side {
            "Key" => Side::Key,
            "Value" => Side::Value,
            _ => return Err(unknown(settings)),
        };
        return of_side(settings, name, side);
    }
    Ok(match name {
        "RegexRouter" => Arc::new(RegexRouter::read(settings)?),
        "Filter" => Arc::new(Filter),
        "DropHeaders" => Arc::new(DropHeaders::read(settings)?),
        "InsertHeader" => Arc::new(InsertHeader::read(settings)?),
        "TimestampRouter" => Arc::new(TimestampRouter::read(settings)?),
        "ValueToKey" => Arc::new(ValueToKey::read(settings)?),
        _ => return Err(unknown(settings)),
    })
}

fn of_side(settings: &mut Settings<'_, '_>, name: &str, side: Side) -> Result<Arc<dyn Transform>, Refused> {
    Ok(match name {
        "Cast" => Arc::new(Cast::read(side, settings)?),
        "ExtractField" => Arc::new(ExtractField::read(side, settings)?),
        "Flatten" => Arc::new(Flatten::read(side, settings)),
        "HeaderFrom" => Arc::new(HeaderFrom::read(side, settings)?),
        "HoistField" => Arc::new(HoistField::read(side, settings)?),
        "InsertField" => Arc::new(InsertField::read(side, settings)?),
        "MaskField" => Arc::new(MaskField::read(side, settings)?),
        "ReplaceField" => Arc::new(ReplaceField::read(side, settings)?),
        "SetSchemaMetadata" => Arc::new(SetSchemaMetadata::read(side, settings)?),
        "TimestampConverter" => Arc::new(TimestampConverter::read(side, settings)?),
        _ => return Err(unknown(settings)),
    })
}

fn debezium(settings: &mut Settings<'_, '_>, name: &str) -> Result<Arc<dyn Transform>, Refused> {
    Ok(match name {
        "ByLogicalTableRouter" => Arc::new(ToLogicalTopicRouter::read(settings, key_field::PHYSICAL_TABLE)?),
        "EnforceRecordSize" => Arc::new(EnforceRecordSize::read(settings)?),
        "ExtractChangedRecordState" => Arc::new(ExtractChangedRecordState::read(settings)),
        "ExtractSchemaToNewRecord" => Arc::new(ExtractSchemaToNewRecord::read(settings)),
        "GeometryFormatTransformer" => Arc::new(GeometryFormatTransformer::read(settings)),
        "HeaderToValue" => Arc::new(HeaderToValue::read(settings)?),
        "SchemaChangeEventFilter" => Arc::new(SchemaChangeEventFilter::read(settings)?),
        "SwapGeometryCoordinates" => Arc::new(SwapGeometryCoordinates::read(settings)?),
        "ToLogicalTopicRouter" => Arc::new(ToLogicalTopicRouter::read(settings, key_field::SOURCE)?),
        "TimezoneConverter" => Arc::new(TimezoneConverter::read(settings)?),
        "partitions.PartitionRouting" => Arc::new(PartitionRouting::read(settings)?),
        "VectorToJsonConverter" => Arc::new(VectorToJsonConverter::default()),
        "ExtractNewRecordState" => Arc::new(ExtractNewRecordState::read(settings)?),
        "Filter" => return Err(no_scripts(settings, "FilterByExpression")),
        "ContentBasedRouter" => return Err(no_scripts(settings, "RouteByExpression")),
        _ => return Err(unknown(settings)),
    })
}

fn ours(settings: &mut Settings<'_, '_>, name: &str) -> Result<Arc<dyn Transform>, Refused> {
    match name {
        #[cfg(feature = "cel")]
        "FilterByExpression" => Ok(Arc::new(FilterByExpression::read(settings)?)),
        #[cfg(feature = "cel")]
        "RouteByExpression" => Ok(Arc::new(RouteByExpression::read(settings)?)),
        #[cfg(not(feature = "cel"))]
        "FilterByExpression" | "RouteByExpression" => {
            Err(settings.refuse("type", crate::error::not_built("CEL", "cel")))
        }
        _ => Err(unknown(settings)),
    }
}

fn no_scripts(settings: &mut Settings<'_, '_>, instead: &str) -> Refused {
    let reason = format!(
        "scripts, Groovy's as well, are not run here; {OURS}{instead} does the same by an expression in CEL, see \
         docs/change-events.md"
    );
    settings.refuse("type", reason)
}

fn unknown(settings: &mut Settings<'_, '_>) -> Refused {
    settings.refuse("type", "there is no such transform here, and leaving it out would change the records")
}

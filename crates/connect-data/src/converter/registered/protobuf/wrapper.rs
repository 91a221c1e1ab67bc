//! Google's messages for single values.

use crate::Kind;

/// A message of `google/protobuf/wrappers.proto`, which has one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    Double,
    Float,
    Int64,
    Int32,
    Bool,
    String,
    Bytes,
}

impl Wrapper {
    /// Returns the wrapper for scalars of this kind.
    pub(super) const fn of(kind: &Kind) -> Option<Self> {
        Some(match kind {
            Kind::Boolean => Self::Bool,
            Kind::Int8 | Kind::Int16 | Kind::Int32 => Self::Int32,
            Kind::Int64 => Self::Int64,
            Kind::Float32 => Self::Float,
            Kind::Float64 => Self::Double,
            Kind::String => Self::String,
            Kind::Bytes => Self::Bytes,
            Kind::Array(_) | Kind::Map(..) | Kind::Struct(_) | Kind::Untyped => return None,
        })
    }

    /// Returns the message name.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Double => "google.protobuf.DoubleValue",
            Self::Float => "google.protobuf.FloatValue",
            Self::Int64 => "google.protobuf.Int64Value",
            Self::Int32 => "google.protobuf.Int32Value",
            Self::Bool => "google.protobuf.BoolValue",
            Self::String => "google.protobuf.StringValue",
            Self::Bytes => "google.protobuf.BytesValue",
        }
    }

    /// Returns the type of its field.
    pub(super) const fn scalar(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the index of its message in the file.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Double => 0,
            Self::Float => 1,
            Self::Int64 => 2,
            Self::Int32 => 4,
            Self::Bool => 6,
            Self::String => 7,
            Self::Bytes => 8,
        }
    }
}

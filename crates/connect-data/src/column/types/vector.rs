//! Types of pgvector: a `vector` is a list of 64-bit numbers, a `halfvec` a list of 32-bit numbers, and a `sparsevec`
//! its dimensions with the numbers that are not zero.

use crate::column::format::required;
use crate::java::hash_map::{Made, in_order_of_numbers};
use crate::{Kind, Schema, Value};

/// A type of pgvector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum Vector {
    Double,
    Half,
    Sparse,
}

impl Vector {
    /// Returns the type with this name.
    pub(in crate::column) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "vector" => Self::Double,
            "halfvec" => Self::Half,
            "sparsevec" => Self::Sparse,
            _ => return None,
        })
    }

    pub(in crate::column) fn schema(self) -> Schema {
        let list = |kind| Kind::Array(Schema::new(kind).into());
        match self {
            Self::Double => Schema::named(list(Kind::Float64), "io.debezium.data.DoubleVector"),
            Self::Half => Schema::named(list(Kind::Float32), "io.debezium.data.FloatVector"),
            Self::Sparse => {
                let numbers = Kind::Map(Schema::new(Kind::Int16).into(), Schema::new(Kind::Float64).into());
                let fields = vec![required("dimensions", Kind::Int16), required("vector", numbers)];
                let name = "io.debezium.data.SparseDoubleVector";
                Schema { doc: Some("Sparse double vector"), ..Schema::named(Kind::Struct(fields), name) }
            }
        }
    }

    /// Reads `[1,2.5]`, or `{1:0.5,3:2}/5`. A vector of more than 32767 dimensions has no form.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        let list = || Some(text.strip_prefix('[')?.strip_suffix(']')?.split(','));
        match self {
            Self::Double => {
                list()?.map(|number| number.parse().ok().map(Value::Float64)).collect::<Option<_>>()
            }
            Self::Half => {
                list()?.map(|number| number.parse().ok().map(Value::Float32)).collect::<Option<_>>()
            }
            Self::Sparse => return sparse(text),
        }
        .map(Value::Array)
    }
}

fn sparse(text: &str) -> Option<Value<'static>> {
    let (entries, dimensions) = text.rsplit_once('/')?;
    let entries = entries.strip_prefix('{')?.strip_suffix('}')?;
    let entry = |entry: &str| {
        let (index, number) = entry.split_once(':')?;
        Some((index.parse::<i16>().ok()?, number.parse::<f64>().ok()?))
    };
    let entries: Vec<_> = match entries {
        "" => Vec::new(),
        entries => entries.split(',').map(entry).collect::<Option<_>>()?,
    };
    let entries = in_order_of_numbers(entries, Made::Sized, |(index, _)| index.unsigned_abs());
    let numbers = entries.into_iter().map(|(index, number)| (Value::Int16(index), Value::Float64(number)));
    Some(Value::Struct(vec![Value::Int16(dimensions.parse().ok()?), Value::Map(numbers.collect())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_does_not_write_and_what_has_no_form_is_refused() {
        let cases = [
            (Vector::Double, "[]"),
            (Vector::Double, "1,2"),
            (Vector::Half, "[1,x]"),
            (Vector::Sparse, "{1:1}"),
            (Vector::Sparse, "1:1/2"),
            (Vector::Sparse, "{1}/2"),
            (Vector::Sparse, "{1:1,}/2"),
            // As Debezium has it, whose numbers of dimensions have 16 bits.
            (Vector::Sparse, "{1:1}/32768"),
            (Vector::Sparse, "{40000:1}/40000"),
        ];
        for (vector, text) in cases {
            assert_eq!(vector.decode(text), None, "{vector:?} {text}");
        }
    }
}

//! Avro schemas for reading.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::DecodeError;
use crate::converter::json_text::{NonBmp, write_string};

/// Maximum nesting depth of a schema's text.
const DEPTH_MAX: usize = 64;

/// An Avro schema, reduced to what reading needs.
#[derive(Debug)]
pub(super) struct AvroSchema {
    pub(super) root: Node,
    /// Records by number.
    pub(super) records: Vec<Vec<RecordField>>,
}

/// A field, with its name as JSON.
#[derive(Debug)]
pub(super) struct RecordField {
    pub(super) label: Vec<u8>,
    pub(super) node: Node,
}

/// A type.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Null,
    Boolean,
    /// `int` and `long`, which have the same encoding.
    Integer,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    /// Bytes that are the unscaled value of a decimal.
    Decimal {
        scale: i32,
        /// Number of bytes, if fixed.
        size: Option<usize>,
    },
    Enum(Vec<String>),
    Array(Box<Self>),
    Map(Box<Self>),
    Union(Vec<Self>),
    /// A record, by number.
    Record(usize),
    /// A record, by number, that is an entry of a map whose keys are numbers.
    Entry(usize),
}

impl AvroSchema {
    /// Parses a schema's text. Any name that Java accepts is allowed.
    pub(super) fn parse(text: &str) -> Result<Self, DecodeError> {
        let json: Value =
            serde_json::from_str(text).map_err(|_| DecodeError::Schema("it is no JSON".into()))?;
        let mut parser = Parser::default();
        let root = parser.node(&json, "", 0)?;
        Ok(Self { root, records: parser.records })
    }
}

#[derive(Default)]
struct Parser {
    named: HashMap<String, Node>,
    records: Vec<Vec<RecordField>>,
}

impl Parser {
    fn node(&mut self, schema: &Value, namespace: &str, depth: usize) -> Result<Node, DecodeError> {
        if depth >= DEPTH_MAX {
            return Err(DecodeError::Schema("it is nested too deep".into()));
        }
        let depth = depth.saturating_add(1);
        match schema {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.node(branch, namespace, depth));
                Ok(Node::Union(branches.collect::<Result<_, _>>()?))
            }
            Value::Object(object) => self.object(object, namespace, depth),
            _ => Err(no_type(schema)),
        }
    }

    fn by_name(&self, name: &str, namespace: &str) -> Result<Node, DecodeError> {
        Ok(match name {
            "null" => Node::Null,
            "boolean" => Node::Boolean,
            "int" | "long" => Node::Integer,
            "float" => Node::Float,
            "double" => Node::Double,
            "bytes" => Node::Bytes,
            "string" => Node::String,
            _ => {
                let known = self.named.get(&full_name(name, namespace)).or_else(|| self.named.get(name));
                known.cloned().ok_or_else(|| DecodeError::Schema(format!("it does not define {name}")))?
            }
        })
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<Node, DecodeError> {
        let kind = object.get("type").unwrap_or(&Value::Null);
        let inner = |key: &str| object.get(key).unwrap_or(&Value::Null);
        match kind.as_str() {
            Some("array") => Ok(Node::Array(Box::new(self.node(inner("items"), namespace, depth)?))),
            Some("map") => Ok(Node::Map(Box::new(self.node(inner("values"), namespace, depth)?))),
            Some("record" | "error") => self.record(object, namespace, depth),
            Some("enum") => {
                let symbols =
                    list(object, "symbols")?.iter().map(|symbol| symbol.as_str().map(str::to_owned));
                let symbols = symbols.collect::<Option<_>>();
                let symbols = symbols.ok_or_else(|| DecodeError::Schema("a symbol is no text".into()))?;
                self.define(object, namespace, Node::Enum(symbols))
            }
            Some("fixed") => {
                let size = inner("size").as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| DecodeError::Schema("a fixed type has no size".into()))?;
                let node = match scale(object) {
                    Some(scale) => Node::Decimal { scale, size: Some(size) },
                    None => Node::Fixed(size),
                };
                self.define(object, namespace, node)
            }
            Some("bytes") => Ok(match scale(object) {
                Some(scale) => Node::Decimal { scale, size: None },
                None => Node::Bytes,
            }),
            _ => self.node(kind, namespace, depth),
        }
    }

    /// Parses a record, which can refer to itself.
    fn record(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<Node, DecodeError> {
        let number = self.records.len();
        self.records.push(Vec::new());
        let node = self.define(object, namespace, Node::Record(number))?;
        let namespace = namespace_of(object, namespace);
        let mut fields = Vec::new();
        for field in list(object, "fields")? {
            let name = field.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| DecodeError::Schema("a field has no name".into()))?;
            let mut label = Vec::new();
            write_string(&mut label, name, NonBmp::Raw);
            let node = self.node(field.get("type").unwrap_or(&Value::Null), &namespace, depth);
            let node = node.map_err(|error| of_field(name, error))?;
            fields.push(RecordField { label, node });
        }
        let is_entry = matches!(fields.as_slice(), [key, _] if matches!(key.node, Node::Integer))
            && object.get("name").and_then(Value::as_str) == Some("MapEntry")
            && namespace == "io.confluent.connect.avro";
        if let Some(place) = self.records.get_mut(number) {
            *place = fields;
        }
        if is_entry { self.define(object, &namespace, Node::Entry(number)) } else { Ok(node) }
    }

    fn define(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        node: Node,
    ) -> Result<Node, DecodeError> {
        let name = object.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| DecodeError::Schema("a named type has no name".into()))?;
        let namespace = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        self.named.insert(full_name(name, namespace), node.clone());
        Ok(node)
    }
}

/// Returns the scale of a decimal, or `None` for another type.
fn scale(object: &Map<String, Value>) -> Option<i32> {
    if object.get("logicalType").and_then(Value::as_str) != Some("decimal") {
        return None;
    }
    object.get("scale").map_or(Some(0), Value::as_i64).and_then(|scale| i32::try_from(scale).ok())
}

/// Returns the items of a list. None may be skipped, because that would change the index of those after it.
fn list<'o>(object: &'o Map<String, Value>, key: &str) -> Result<&'o [Value], DecodeError> {
    let items = object.get(key).and_then(Value::as_array);
    items.map(Vec::as_slice).ok_or_else(|| DecodeError::Schema(format!("a type has no {key}")))
}

/// Returns the namespace in which the names in a record's fields are looked up.
fn namespace_of(object: &Map<String, Value>, enclosing: &str) -> String {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    match name.rsplit_once('.') {
        Some((namespace, _)) => namespace.to_owned(),
        None => text("namespace").unwrap_or(enclosing).to_owned(),
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn of_field(name: &str, error: DecodeError) -> DecodeError {
    match error {
        DecodeError::Schema(reason) => DecodeError::Schema(format!("field {name}: {reason}")),
        error => error,
    }
}

fn no_type(schema: &Value) -> DecodeError {
    let kind = match schema {
        Value::Null => "nothing",
        _ => "something else",
    };
    DecodeError::Schema(format!("{kind} stands where a type should be"))
}

//! YAML, with the line of each key and the literal text of each value.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::{Member, Node};

/// Levels of nesting. A configuration has about five; reading is recursive.
const DEPTH_MAX: usize = 64;
/// Values that aliases may add to a document, so that a few lines cannot become gigabytes.
const ALIASED_MAX: usize = 100_000;

/// Reason why a text is no YAML that outboxd reads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    /// Not YAML.
    #[error("{} at line {} column {}", .0.info(), .0.marker().line(), .0.marker().col().saturating_add(1))]
    Syntax(ScanError),
    /// A text that ends inside a value.
    #[error("the text ends inside a value")]
    Incomplete,
    /// A key that is written twice in one map.
    #[error("the key {key:?} is written twice at line {line}")]
    Twice { key: String, line: usize },
    /// A key that is a list or a map.
    #[error("the key at line {0} is no text")]
    Key(usize),
    /// An alias of a value that contains the alias.
    #[error("the alias at line {0} is part of the value that it stands for")]
    Cycle(usize),
    /// Aliases that repeat too much.
    #[error("the alias at line {0} makes more than {ALIASED_MAX} values")]
    Size(usize),
}

/// Parses a stream of documents.
pub(in crate::config::source) fn parse(text: &str) -> Result<Vec<Node>, YamlError> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let text = text.trim_start_matches('\u{feff}');
    let mut reader =
        YamlReader { events: Parser::new_from_str_with_options(text, options), ..YamlReader::empty() };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(..) => reader.anchors.clear(),
            event => documents.push(reader.node(event, span)?),
        }
    }
    Ok(documents)
}

struct YamlReader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    /// Values with an anchor, and the number of values in each.
    anchors: HashMap<usize, (Node, usize)>,
    aliased: usize,
}

impl<'t> YamlReader<'t> {
    fn empty() -> Self {
        Self { events: Parser::new_from_str(""), anchors: HashMap::new(), aliased: 0 }
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, YamlError> {
        self.events.next().transpose().map_err(YamlError::Syntax)
    }

    fn inside(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        self.next()?.ok_or(YamlError::Incomplete)
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node, YamlError> {
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, span.start.line()),
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let is_null = style == ScalarStyle::Plain && !tagged && is_null(&text);
                (if is_null { Node::Null } else { Node::Text(text.into_owned()) }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list()?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map()?, anchor),
            _ => return Err(YamlError::Incomplete),
        };
        if anchor > 0 {
            let size = size(&node);
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, YamlError> {
        let (node, size) = self.anchors.get(&anchor).ok_or(YamlError::Cycle(line))?;
        self.aliased = self.aliased.saturating_add(*size);
        if self.aliased > ALIASED_MAX { Err(YamlError::Size(line)) } else { Ok(node.clone()) }
    }

    fn list(&mut self) -> Result<Node, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.inside()? {
                (Event::SequenceEnd, _) => return Ok(Node::List(items)),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Node, YamlError> {
        let mut members: Vec<Member> = Vec::new();
        let mut merged = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.inside()?;
            if event == Event::MappingEnd {
                break;
            }
            let line = span.start.line();
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text.as_ref() == "<<");
            let Node::Text(key) = self.node(event, span)? else { return Err(YamlError::Key(line)) };
            let (event, span) = self.inside()?;
            let value = self.node(event, span)?;
            if is_merge {
                merged.push(value);
            } else if seen.insert(key.clone()) {
                members.push(Member { key, line: Some(line), value });
            } else {
                return Err(YamlError::Twice { key, line });
            }
        }
        // A key of the map itself wins over a merged one, an earlier merged map over a later one.
        for map in merged.into_iter().flat_map(maps) {
            members.extend(map.into_iter().filter(|member| seen.insert(member.key.clone())));
        }
        Ok(Node::Map(members))
    }
}

/// Returns the maps that `<<` merges: one, or a list.
fn maps(node: Node) -> Vec<Vec<Member>> {
    match node {
        Node::Map(members) => vec![members],
        Node::List(items) => items.into_iter().flat_map(maps).collect(),
        Node::Null | Node::Text(_) => Vec::new(),
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn size(node: &Node) -> usize {
    let below: usize = match node {
        Node::Null | Node::Text(_) => 0,
        Node::List(items) => items.iter().map(size).sum(),
        Node::Map(members) => members.iter().map(|member| size(&member.value)).sum(),
    };
    below.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(node: &Node) -> String {
        match node {
            Node::Null => "null".to_owned(),
            Node::Text(text) => format!("{text:?}"),
            Node::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Node::Map(members) => {
                let member = |m: &Member| format!("{}@{}:{}", m.key, m.line.unwrap_or(0), shown(&m.value));
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn documents_are_read_with_lines_and_literal_text() {
        let cases = [
            (
                "a: 1.10\nb: yes\nc: 'null'\nd: ~\ne:\n",
                "{a@1:\"1.10\" b@2:\"yes\" c@3:\"null\" d@4:null e@5:null}",
            ),
            ("# x\n---\na: [1, x]\n---\nb: {c: d}\n", "{a@3:[\"1\" \"x\"]} {b@5:{c@5:\"d\"}}"),
            ("a: |\n  x=1\n  y=2\nb: >\n  one\n  two\n", "{a@1:\"x=1\\ny=2\\n\" b@4:\"one two\\n\"}"),
            (
                "b: &b {x: 1, y: 2}\na:\n  <<: *b\n  y: 3\n",
                "{b@1:{x@1:\"1\" y@1:\"2\"} a@2:{y@4:\"3\" x@1:\"1\"}}",
            ),
            ("a: !!str\nb: !!str null", "{a@1:\"\" b@2:\"null\"}"),
            ("{\"a\": \"b\"}", "{a@1:\"b\"}"),
            ("", ""),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = parse(text).unwrap().iter().map(shown).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_have_their_line() {
        let laughs = (1..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| {
            let alias = format!("*a{}, ", level - 1).repeat(9);
            format!("{text}a{level}: &a{level} [{alias}]\n")
        });
        let deep = "[".repeat(500);
        let cases = [
            ("a: 1\nb: 2\na: 3\n", "the key \"a\" is written twice at line 3"),
            ("a: 1\n b: 2\n", "at line 2 column"),
            ("? [a]\n: b\n", "the key at line 1 is no text"),
            ("a: &a\n  b: *a\n", "the alias at line 2 is part of the value"),
            ("a: *b\n", "at line 1 column"),
            (laughs.as_str(), "makes more than 100000 values"),
            (deep.as_str(), "at line 1 column"),
        ];
        for (text, expected) in cases {
            let error = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([a-c:#&*!|>'\"%@{}\\[\\],?~<\\\\ -]|\n|\t|\\PC){0,60}") {
            drop(parse(&text));
        }

        #[test]
        fn json_is_read_as_by_its_own_reader(map in proptest::collection::btree_map("[a-z.]{1,8}x", "\\PC*", 0..8)) {
            let text = serde_json::to_string_pretty(&map).unwrap();
            prop_assert_eq!(parse(&text).unwrap(), [super::super::json::parse(&text).unwrap()]);
        }
    }
}

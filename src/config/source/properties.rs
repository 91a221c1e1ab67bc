//! Java properties: Connect's standalone files and Debezium Server's `application.properties`.

use encoding_rs::UTF_8;
use java_properties::{LineContent, PropertiesError, PropertiesIter};
use zeroize::Zeroizing;

use super::file::Entry;

/// Parses properties. They are UTF-8, as for Quarkus; a file that is not UTF-8 is read as ISO 8859-1, as Java does.
pub(in crate::config) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, PropertiesError> {
    // The reader drops a last line that ends in a continuation with nothing after it, so that a line end is added.
    let text: Zeroizing<String> = Zeroizing::new(match std::str::from_utf8(bytes) {
        Ok(text) => [text, "\n"].concat(),
        // The reader does not decode them: it takes two bytes at the beginning for a mark of UTF-16, and panics at the
        // text after them.
        Err(_) => bytes.iter().copied().map(char::from).chain(['\n']).collect(),
    });
    let lines = PropertiesIter::new_with_encoding(text.as_bytes(), UTF_8);
    let mut entries = Vec::new();
    for line in lines {
        let line = line?;
        let number = line.line_number();
        if let LineContent::KVPair(key, value) = line.consume_content() {
            entries.push(Entry { key, value, line: Some(number) });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use java_properties::PropertiesWriter;
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<String> {
        let entry = |e: Entry| format!("{}={}@{}", e.key, e.value, e.line.unwrap_or(0));
        parse(text.as_bytes()).unwrap().into_iter().map(entry).collect()
    }

    #[test]
    fn reads_what_java_reads() {
        let cases = [
            ("a=b", vec!["a=b@1"]),
            ("# c\n! d\n\na : b\r\nc d\n", vec!["a=b@4", "c=d@5"]),
            ("a=b\\\n   ,c\nd=e", vec!["a=b,c@1", "d=e@3"]),
            ("a=b\\", vec!["a=b@1"]),
            ("p=x\\\\.y\\,z", vec!["p=x\\.y,z@1"]),
            ("u=\\u00e9é", vec!["u=éé@1"]),
            (
                "r=${routedByValue}\ns=\\${routedByValue}",
                vec!["r=${routedByValue}@1", "s=${routedByValue}@2"],
            ),
            ("empty", vec!["empty=@1"]),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert_eq!(parse(b"a=\xe9").unwrap()[0].value, "é");
        // What stands before UTF-16.
        assert_eq!(parse(b"\xfe\xff\0a=b").unwrap()[0].key, "þÿ\0a");
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        assert_eq!(parse(b"a=b\nc=\\u12").unwrap_err().line_number(), Some(2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(parse(&bytes));
        }

        #[test]
        fn what_a_writer_escapes_is_read_back(key in "[\u{20}-\u{ff}]{1,20}", value in "[\t\n\r\u{20}-\u{2fff}]{0,40}") {
            let mut bytes = Vec::new();
            let mut writer = PropertiesWriter::new_with_encoding(&mut bytes, UTF_8);
            writer.write(&key, &value).unwrap();
            writer.finish().unwrap();
            let entries = parse(&bytes).unwrap();
            prop_assert_eq!(entries.len(), 1);
            prop_assert_eq!((&entries[0].key, &entries[0].value), (&key, &value));
        }
    }
}

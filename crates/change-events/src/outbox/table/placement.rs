//! Additional columns of an event.

use connect_data::OptionError;

const KEY: &str = "table.fields.additional.placement";

/// A column of the event besides id, key and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdditionalField {
    /// The column.
    pub column: String,
    /// The column's place in the event.
    pub placement: Placement,
    /// The header's or the field's name; the default is the column's name.
    pub alias: String,
}

/// The place of a column in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A header.
    Header,
    /// A field of the value, which becomes a struct.
    Envelope,
    /// The partition.
    Partition,
}

/// Parses `column:placement[:alias],…`. As in Debezium, blanks around the parts, a comma at the end and an
/// empty alias are accepted.
pub(in crate::outbox) fn parse(text: &str) -> Result<Vec<AdditionalField>, OptionError> {
    let refuse = |reason: String| OptionError::new(KEY, text, reason);
    let list = text.trim_end_matches(',');
    let mut fields = Vec::new();
    for item in list.split(',') {
        let parts: Vec<&str> = item.trim_end_matches(':').split(':').map(str::trim).collect();
        let (column, placement, alias) = match parts.as_slice() {
            [column, placement] => (*column, *placement, *column),
            [column, placement, alias] => (*column, *placement, *alias),
            _ => return Err(refuse(format!("{item:?} is not column:placement or column:placement:alias"))),
        };
        if column.is_empty() {
            return Err(refuse(format!("{item:?} names no column")));
        }
        let placement = placement_of(placement).ok_or_else(|| {
            refuse(format!("{placement:?} is not a placement; there are header, envelope, partition"))
        })?;
        fields.push(AdditionalField { column: column.to_owned(), placement, alias: alias.to_owned() });
    }
    no_name_twice(&fields).map_err(refuse)?;
    Ok(fields)
}

fn placement_of(name: &str) -> Option<Placement> {
    let placements = [
        ("header", Placement::Header),
        ("envelope", Placement::Envelope),
        ("partition", Placement::Partition),
    ];
    placements.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, placement)| *placement)
}

/// Checks that the fields of the envelope have different names; headers may repeat a name.
fn no_name_twice(fields: &[AdditionalField]) -> Result<(), String> {
    let mut taken = vec!["payload"];
    for field in fields.iter().filter(|field| field.placement == Placement::Envelope) {
        if taken.contains(&field.alias.as_str()) {
            return Err(format!(
                "the envelope would have two fields {:?}; give one of them an alias",
                field.alias
            ));
        }
        taken.push(&field.alias);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_debezium_reads_them() {
        use Placement::{Envelope, Header, Partition};
        type Fields = &'static [(&'static str, Placement, &'static str)];
        let cases: &[(&str, Fields)] = &[
            ("type:header", &[("type", Header, "type")]),
            ("type:header:eventType", &[("type", Header, "eventType")]),
            ("type:HEADER:", &[("type", Header, "type")]),
            ("type:header,", &[("type", Header, "type")]),
            (
                " type : header : eventType , p : partition ",
                &[("type", Header, "eventType"), ("p", Partition, "p")],
            ),
            ("type:header:id,type:header:id", &[("type", Header, "id"), ("type", Header, "id")]),
            ("type:envelope,type:header", &[("type", Envelope, "type"), ("type", Header, "type")]),
        ];
        for (text, expected) in cases {
            let fields = parse(text).expect(text);
            let found: Vec<_> =
                fields.iter().map(|f| (f.column.as_str(), f.placement, f.alias.as_str())).collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn what_fails_at_debeziums_first_row_is_refused_here() {
        for (text, reason) in [
            ("", "is not column:placement"),
            ("type", "is not column:placement"),
            ("type:header:a:b", "is not column:placement"),
            ("type:body", "is not a placement"),
            (":header", "names no column"),
            ("type:envelope:payload", "two fields \"payload\""),
            ("type:envelope:a,aggregateid:envelope:a", "two fields \"a\""),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

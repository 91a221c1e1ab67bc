//! Labels of enums.

use super::ChangeTable;
use crate::change::row_change::RowChange;
use connect_data::column::TypeKind;
use pg_replication::pgoutput::ColumnValue;

/// The values of an enum, sorted.
#[derive(Debug)]
pub(in crate::change) struct Labels(Vec<Box<[u8]>>);

impl Labels {
    /// Returns the values of an enum column. As Debezium, it ignores domains over enums and arrays of enums.
    pub(in crate::change) fn of(kind: &TypeKind) -> Option<Self> {
        let TypeKind::Enum { labels, .. } = kind else { return None };
        let mut labels: Vec<_> = labels.iter().map(|label| label.as_bytes().into()).collect();
        labels.sort_unstable();
        Some(Self(labels))
    }

    pub(in crate::change) fn has(&self, label: &[u8]) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(label)).is_ok()
    }
}

impl ChangeTable {
    /// Returns the first column whose enum value is not in its schema, and that value: it was added after the
    /// table was described.
    pub fn unknown_label<'r>(&self, change: RowChange<'r, '_>) -> Option<(&str, &'r [u8])> {
        let (RowChange::Insert(row) | RowChange::Update(_, row)) = change else { return None };
        self.columns.iter().find_map(|column| {
            let labels = column.labels.as_ref()?;
            match row.get(column.index)? {
                ColumnValue::Text(label) if !labels.has(label) => Some((column.name.as_str(), *label)),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_knows_its_labels() {
        let labels = ["b", "a,c", "\u{e4}"].map(str::to_owned).to_vec();
        let mood = TypeKind::Enum { name: "mood".to_owned(), labels };
        let labels = Labels::of(&mood).unwrap();
        for (label, is_known) in [("b", true), ("a,c", true), ("\u{e4}", true), ("a", false), ("", false)] {
            assert_eq!(labels.has(label.as_bytes()), is_known, "{label}");
        }
        assert!(Labels::of(&TypeKind::Array { element: Box::new(mood) }).is_none());
    }
}

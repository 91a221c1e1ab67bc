//! Options whose keys contain a number or a salt, and whose values are lists of columns.

use crate::connect::column::{
    ColumnFilter, ColumnRule, ColumnRules, HashForm, Mapper, MaskHash, RuleSubject,
};

use crate::config::read::Reader;

/// Reads the filter of columns, and the rules that change their values.
pub(in crate::config) fn rules(reader: &mut Reader<'_>) -> ColumnRules {
    let mut mapped: Vec<(u8, ColumnRule)> = Vec::new();
    for (key, setting) in reader.settings.iter().filter(|(_, setting)| !setting.value.trim().is_empty()) {
        match parse(key) {
            Ok(None) => {}
            Ok(Some((rank, subject, mapper))) => {
                if let Some(patterns) = reader.patterns(key) {
                    mapped.push((rank, ColumnRule { subject, patterns, mapper }));
                }
            }
            Err(reason) => reader.invalid(setting, reason),
        }
    }
    mapped.sort_by_key(|(rank, _)| *rank);
    ColumnRules { filter: filter(reader), mapped: mapped.into_iter().map(|(_, rule)| rule).collect() }
}

/// Parses a key. Returns the position among the rules, the subject of the patterns and the mapper; `None` for keys of
/// other options.
fn parse(key: &str) -> Result<Option<(u8, RuleSubject, Mapper)>, &'static str> {
    let number = |rest: &str| rest.strip_suffix(".chars").and_then(|number| number.parse().ok());
    if let Some(rest) = key.strip_prefix("column.truncate.to.") {
        let max = number(rest).ok_or("the key must be column.truncate.to.NUMBER.chars")?;
        return Ok(Some((0, RuleSubject::Name, Mapper::Truncate(max))));
    }
    if let Some(rest) = key.strip_prefix("column.mask.with.") {
        let count = number(rest).filter(|count| *count <= MASK_MAX);
        let count = count.ok_or("the key must be column.mask.with.NUMBER.chars, 10000 at most")?;
        return Ok(Some((1, RuleSubject::Name, Mapper::Mask(count))));
    }
    if let Some(rest) = key.strip_prefix("column.mask.hash.") {
        let (rank, form, rest) = match rest.strip_prefix("v2.") {
            Some(rest) => (5, HashForm::V2, rest),
            None => (4, HashForm::V1, rest),
        };
        let (algorithm, salt) = rest
            .split_once(".with.salt.")
            .filter(|(_, salt)| !salt.is_empty())
            .ok_or("the key must be column.mask.hash.ALGORITHM.with.salt.SALT")?;
        let hash = MaskHash::new(algorithm, salt, form)
            .ok_or("the algorithm must be MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512")?;
        return Ok(Some((rank, RuleSubject::Name, Mapper::Hash(hash))));
    }
    Ok(match key {
        "column.propagate.source.type" => Some((2, RuleSubject::Name, Mapper::PropagateType)),
        "datatype.propagate.source.type" => Some((3, RuleSubject::Type, Mapper::PropagateType)),
        _ => None,
    })
}

/// Maximum number of asterisks in a mask.
const MASK_MAX: usize = 10_000;

fn filter(reader: &mut Reader<'_>) -> ColumnFilter {
    const INCLUDE: &str = "column.include.list";
    const EXCLUDE: &str = "column.exclude.list";
    let settings = reader.settings;
    let said = |key| settings.get(key).filter(|setting| !setting.value.trim().is_empty());
    match (said(INCLUDE), said(EXCLUDE)) {
        (Some(_), Some(_)) => {
            reader.refuse_both(INCLUDE, EXCLUDE);
            ColumnFilter::All
        }
        (Some(_), None) => reader.patterns(INCLUDE).map(ColumnFilter::Include).unwrap_or_default(),
        (None, Some(_)) => reader.patterns(EXCLUDE).map(ColumnFilter::Exclude).unwrap_or_default(),
        (None, None) => ColumnFilter::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_for_mappers() {
        let cases = [
            ("column.truncate.to.3.chars", Some((0, Mapper::Truncate(3)))),
            ("column.mask.with.0.chars", Some((1, Mapper::Mask(0)))),
            ("column.propagate.source.type", Some((2, Mapper::PropagateType))),
            ("datatype.propagate.source.type", Some((3, Mapper::PropagateType))),
            (
                "column.mask.hash.SHA-256.with.salt.a.b",
                MaskHash::new("SHA-256", "a.b", HashForm::V1).map(|hash| (4, Mapper::Hash(hash))),
            ),
            (
                "column.mask.hash.v2.md5.with.salt.s",
                MaskHash::new("MD5", "s", HashForm::V2).map(|hash| (5, Mapper::Hash(hash))),
            ),
            ("column.include.list", None),
        ];
        for (key, expected) in cases {
            assert_eq!(parse(key).unwrap().map(|(rank, _, mapper)| (rank, mapper)), expected, "{key}");
        }
        for key in [
            "column.truncate.to.x.chars",
            "column.truncate.to.3",
            "column.mask.with.99999999.chars",
            "column.mask.hash.MD2.with.salt.s",
            "column.mask.hash.MD5",
            "column.mask.hash.MD5.with.salt.",
        ] {
            assert!(parse(key).is_err(), "{key}");
        }
    }
}

//! Tests of the expansion of JSON.

mod naive;

use proptest::prelude::*;
use serde_json::{Map, Value as Json};

use super::*;

/// Returns the combinations of all behaviors, with and without adjusted names.
fn expansions() -> Vec<JsonExpansion> {
    let nulls = [NullBehavior::Ignore, NullBehavior::OptionalBytes];
    let arrays = [EmptyArrayBehavior::Ignore, EmptyArrayBehavior::OptionalString];
    let names = [NameAdjustment::None, NameAdjustment::Avro];
    let mut all = Vec::new();
    for null in nulls {
        for empty_array in arrays {
            all.extend(names.map(|names| JsonExpansion { null, empty_array, lossless: false, names }));
        }
    }
    all
}

/// Checks that a text has the same expansion after any earlier texts.
fn check(expansion: JsonExpansion, known: &mut KnownSchemas, text: &str) -> Result<(), TestCaseError> {
    let inferred = expansion.expand("payload", text, &mut KnownSchemas::default());
    let expanded = expansion.expand("payload", text, known);
    prop_assert_eq!(&expanded, &inferred, "{} after {:?}", text, known);
    prop_assert_eq!(expansion.expand("payload", text, known), inferred, "{} again", text);
    Ok(())
}

#[test]
fn a_structure_that_is_known_is_found() {
    let found = [
        (
            r#"{"a": 1, "b": "x", "c": [{"d": 1.5}]}"#,
            r#"{"a": 2, "b": "y\n", "c": [{"d": 2.5}, {"d": 0.1}]}"#,
        ),
        (r#"{"a": 1}"#, r#"{"a": -7, "b": null, "c": [ ]} trailing"#),
        (r#"{"a": 1e400, "b": 5000000000}"#, r#"{"a": 99999999999999999999, "b": -5000000000}"#),
        (r#"[true, false]"#, "[false]"),
        ("{}", r#"{"a": null}"#),
    ];
    for (first, second) in found {
        let (expansion, mut known) = (expansions()[0], KnownSchemas::default());
        expansion.expand("payload", first, &mut known);
        let read = known.read(expansion, "payload", second);
        let Expanded::Structure { schema, value } = expansion.infer("payload", second) else {
            panic!("{second}")
        };
        assert_eq!(read, Some((schema, value)), "{second}");
        assert_eq!(known.read(expansion, "other", second), None);
    }
}

#[test]
fn what_differs_is_inferred_again() {
    let texts = [
        r#"{"a": 1, "b": 2}"#,
        r#"{"a": 1, "b": 2, "b": null}"#,
        r#"{"a": 1, "b": 2, "a": 3}"#,
        r#"{"a": null, "b": 2, "a": 3}"#,
        r#"{"b": 1, "a": 2}"#,
        r#"{"a": 1, "": null, "b": 2}"#,
        r#"{"a": "1", "b": 2}"#,
        r#"{"a": 1.0, "b": 2}"#,
        r#"{"a": true, "b": 2}"#,
        r#"{"a": "x", "b": 2.5}"#,
        r#"{"a": "x", "b": "2.5"}"#,
        r#"{"a": {"x": 1}, "b": 2}"#,
        r#"{"a": 4294967296, "b": 2}"#,
        r#"{"a": -0, "b": 2}"#,
        r#"{"a": -0.0, "b": 2}"#,
        r#"{"a": 1e400, "b": 2}"#,
        r#"{"a": 1E5, "b": 2}"#,
        r#"{"a": 1, "b": 2, "c": 3}"#,
        r#"{"a": 1}"#,
        r#"{"a": 1, "b": [{"c": 1}, {"d": 2}]}"#,
        r#"{"a": 1, "b": [{"c": 1, "d": 2}]}"#,
        r#"{"a": 1, "b": [{"c": 1, "d": 2}, null]}"#,
        r#"{"a": 1, "b": [[], ["x"]]}"#,
        r#"{"a": 1, "b": [["x"], []]}"#,
        r#"{"a": 1, "b": []}"#,
        r#"{"a": 1, "b": ["\ud83d\ude00"]}"#,
        r#"{"a": 1, "b": ["\ud83d"]}"#,
        r#"{"a-b": 1, "a.b": null}"#,
        r#"{"a.b": null, "a-b": 1}"#,
        r#"{"a_b": 1, "a-b": 2}"#,
        r#"{"a": 1, "b": 2"#,
    ];
    for expansion in expansions() {
        let mut known = KnownSchemas::default();
        for first in texts {
            for second in texts {
                check(expansion, &mut known, first).unwrap();
                check(expansion, &mut known, second).unwrap();
            }
        }
    }
}

#[test]
fn a_long_text_is_not_remembered() {
    let text = format!(r#"{{"a": "{}"}}"#, "x".repeat(1 << 14));
    let (expansion, mut known) = (expansions()[0], KnownSchemas::default());
    expansion.expand("payload", &text, &mut known);
    assert_eq!(known.read(expansion, "payload", r#"{"a": "x"}"#), None);
}

/// Both sides of the limit, for a text that has no member `m` but in its first element.
#[test]
fn what_is_added_to_a_text_is_limited() {
    let grown = |names: usize, elements: usize| {
        let members: Vec<_> = (0..names).map(|n| format!(r#""member{n}":1"#)).collect();
        format!("[{{{}}}{}]", members.join(","), ",{}".repeat(elements))
    };
    let is_expanded =
        |text: &str| matches!(expansions()[0].infer("payload", text), Expanded::Structure { .. });
    assert!(is_expanded(&grown(100, 200)), "less than a megabyte is added");
    assert!(is_expanded(&grown(3, 10_000)), "three nulls for each element of three bytes");
    assert!(!is_expanded(&grown(1_000, 10_000)), "ten million nulls");
    let named = |structs: usize, name: usize| {
        let structs: Vec<_> = (0..structs).map(|n| format!(r#""m{n}":{{}}"#)).collect();
        format!(r#"{{"{}":{{{}}}}}"#, "n".repeat(name), structs.join(","))
    };
    assert!(is_expanded(&named(1_000, 500)));
    assert!(!is_expanded(&named(10_000, 50_000)), "500 MB of names");
}

/// Generates JSON whose members have few names, so that structures repeat.
fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i8>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a\"\\\\\n😀]{0,3}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let members = prop::collection::vec(("[ab._]{1,2}", inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Json::from),
            members.prop_map(|members| Json::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates objects that often agree in the types of their members, so that they can be merged.
fn json_object() -> impl Strategy<Value = Json> {
    let member = prop_oneof![
        4 => Just(Json::from(1)),
        1 => Just(Json::Null),
        1 => Just(Json::from("x")),
        1 => Just(Json::Array(Vec::new())),
    ];
    let nested = member.prop_recursive(3, 12, 3, |inner| {
        let members = prop::collection::vec(("[abc]|a[.]b|a-b", inner.clone()), 0..4);
        prop_oneof![
            1 => prop::collection::vec(inner, 1..3).prop_map(Json::from),
            3 => members.prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::vec(("[abc]|a[.]b|a-b", nested), 0..4)
        .prop_map(|members| Json::Object(members.into_iter().collect()))
}

proptest! {
    #[test]
    fn what_was_read_before_changes_nothing(documents in prop::collection::vec(json(), 1..12)) {
        for expansion in expansions() {
            let mut known = KnownSchemas::default();
            for document in &documents {
                check(expansion, &mut known, &format!(r#"{{"a": {document}}}"#))?;
                check(expansion, &mut known, &document.to_string())?;
            }
        }
    }

    #[test]
    fn an_index_changes_nothing(document in json()) {
        for expansion in expansions() {
            for document in [document.clone(), Json::Array(vec![document.clone(), Json::Null, document.clone()])] {
                let found = structure(expansion, Some("payload"), &document, 0).ok().flatten();
                prop_assert_eq!(found, naive::expand(expansion, "payload", &document), "{}", document);
            }
        }
    }

    #[test]
    fn objects_are_merged_as_one_after_another(items in prop::collection::vec(json_object(), 1..6)) {
        for expansion in expansions() {
            let document = Json::Array(items.clone());
            let found = structure(expansion, Some("payload"), &document, 0).ok().flatten();
            prop_assert_eq!(found, naive::expand(expansion, "payload", &document), "{}", document);
        }
    }

    #[test]
    fn any_payload_is_expanded_or_kept(texts in prop::collection::vec(r#"[\[{]["a-c:,0-9.e\[\]{}nul -]{0,40}"#, 2)) {
        let mut known = KnownSchemas::default();
        for text in &texts {
            check(expansions()[0], &mut known, text)?;
        }
    }
}

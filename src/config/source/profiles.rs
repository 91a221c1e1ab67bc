//! Quarkus' profiles in Debezium Server's file: `%prod.debezium.source.database.password` applies in production.

use std::collections::HashMap;

use super::file::Entry;
use crate::config::notice::Notice;

/// Quarkus' default profile, outside of its development mode.
const DEFAULT: &str = "prod";

/// Returns the entries that apply, and a notice about the entries of other profiles. Those of an active profile lose its prefix and
/// come behind all others, so that they win. As in Quarkus, `QUARKUS_PROFILE` names the active profiles, or else `quarkus.profile`
/// in the file; of several the last one wins.
pub(in crate::config) fn choose(
    entries: Vec<Entry>,
    environment: &HashMap<String, String>,
) -> (Vec<Entry>, Option<Notice>) {
    let in_file = entries.iter().rev().find(|entry| entry.key == "quarkus.profile");
    let said = environment.get("QUARKUS_PROFILE").or(in_file.map(|entry| &entry.value));
    let active: Vec<String> = list(said.map_or(DEFAULT, String::as_str)).map(str::to_owned).collect();
    let (mut plain, mut profiled, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let Some((profiles, key)) = split(&entry.key) else {
            plain.push(entry);
            continue;
        };
        match list(profiles).filter_map(|one| active.iter().position(|active| active == one)).max() {
            Some(place) => profiled.push((place, Entry { key: key.to_owned(), ..entry })),
            None => other.push(entry.key),
        }
    }
    profiled.sort_by_key(|(place, _)| *place);
    plain.extend(profiled.into_iter().map(|(_, entry)| entry));
    (plain, inactive(other, &active))
}

fn inactive(keys: Vec<String>, active: &[String]) -> Option<Notice> {
    let text = format!(
        "its profile is not active: the active one is {}, set by QUARKUS_PROFILE or quarkus.profile",
        active.join(", ")
    );
    (!keys.is_empty()).then(|| Notice::ignored(&keys.join(", "), text))
}

/// Splits a key into its profiles and the rest: `%prod.a` or `%{prod,stage}.a`.
fn split(key: &str) -> Option<(&str, &str)> {
    let rest = key.strip_prefix('%')?;
    match rest.strip_prefix('{') {
        Some(several) => several.split_once("}."),
        None => rest.split_once('.'),
    }
}

fn list(profiles: &str) -> impl Iterator<Item = &str> {
    profiles.split(',').map(str::trim).filter(|profile| !profile.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(keys: &[&str], profile: Option<&str>) -> (String, String) {
        let entry =
            |(at, key): (usize, &&str)| Entry { key: (*key).to_owned(), value: at.to_string(), line: None };
        let entries = keys.iter().enumerate().map(entry).collect();
        let environment =
            profile.map(|profile| ("QUARKUS_PROFILE".to_owned(), profile.to_owned())).into_iter().collect();
        let (entries, notice) = choose(entries, &environment);
        let shown: Vec<_> = entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
        (shown.join(" "), notice.map(|notice| notice.to_string()).unwrap_or_default())
    }

    #[test]
    fn keys_of_the_active_profile_win_and_those_of_others_are_reported() {
        let keys = ["%prod.a", "a", "%dev.a", "%{dev,stage}.b", "b"];
        let cases = [
            (None, "a=1 b=4 a=0", "%dev.a, %{dev,stage}.b"),
            (Some("dev"), "a=1 b=4 a=2 b=3", "%prod.a"),
            (Some("stage,prod"), "a=1 b=4 b=3 a=0", "%dev.a"),
            (
                Some("none"),
                "a=1 b=4",
                "%prod.a, %dev.a, %{dev,stage}.b: its profile is not active: the active one is none",
            ),
        ];
        for (profile, expected, told) in cases {
            let (found, said) = chosen(&keys, profile);
            assert_eq!(found, expected, "{profile:?}");
            assert!(said.contains(told), "{profile:?}: {said}");
        }
        assert_eq!(chosen(&["a"], None), ("a=0".to_owned(), String::new()));
    }
}

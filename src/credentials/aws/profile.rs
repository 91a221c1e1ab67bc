//! The shared files of AWS' tools: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;

use crate::secret::Secret;

/// Returns the settings of a profile. In the file `config` a section is called `profile NAME`, but for the default one.
pub(super) fn section(text: &str, profile: &str, is_config: bool) -> BTreeMap<String, Secret> {
    let mut found = BTreeMap::new();
    let mut is_inside = false;
    for line in text.lines() {
        // A nested setting is indented.
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split(']').next().unwrap_or_default().trim();
            let named = name.strip_prefix("profile ").map(str::trim);
            is_inside = if is_config {
                named == Some(profile) || name == profile && profile == "default"
            } else {
                name == profile
            };
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside && !is_nested) {
            found.insert(name.trim().to_ascii_lowercase(), Secret::new(value.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_profile_has_its_settings() {
        let credentials = "[default]\naws_access_key_id = A\n# x\n[orders]\nAWS_ACCESS_KEY_ID=B\n s3 =\n";
        let config = "[default]\nregion=r1\n[profile orders]\nregion = r2\ns3 =\n  region = nested\n[orders]\nregion=r3\n";
        assert_eq!(
            section(credentials, "orders", false).get("aws_access_key_id").map(Secret::expose),
            Some("B")
        );
        assert_eq!(section(config, "orders", true).get("region").map(Secret::expose), Some("r2"));
        assert_eq!(section(config, "default", true).get("region").map(Secret::expose), Some("r1"));
        assert!(section(credentials, "none", false).is_empty());
    }

    proptest! {
        #[test]
        fn any_file_is_read(text in "[\\[\\]a=# \n]*", is_config: bool) {
            drop(section(&text, "a", is_config));
        }
    }
}

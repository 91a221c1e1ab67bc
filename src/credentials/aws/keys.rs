//! Access keys of AWS.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::credentials::answer::instant;
use crate::credentials::wiped_json::WipedJson;
use crate::secret::Secret;

/// Keys with less than this left are asked for again.
const RESERVE: Duration = Duration::from_secs(120);
const RESERVE_PART: u32 = 5;

/// Access keys of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Access key id; not secret.
    pub(super) id: String,
    pub(super) secret: Secret,
    /// Session token of temporary keys.
    pub(super) session: Option<Secret>,
    pub(super) expires_at: Option<SystemTime>,
}

impl Keys {
    /// Reads the JSON of the container's and the instance's metadata.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let object = WipedJson::parse(text)?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Self {
            id: text("AccessKeyId")?.to_owned(),
            secret: Secret::new(text("SecretAccessKey")?),
            session: text("Token").map(Secret::new),
            expires_at: match text("Expiration") {
                Some(time) => Some(instant(time)?),
                None => None,
            },
        })
    }

    /// Reads the XML of STS.
    pub(super) fn from_xml(text: &str) -> Option<Self> {
        let credentials = element(text, "Credentials")?;
        Some(Self {
            id: element(credentials, "AccessKeyId")?.to_owned(),
            secret: Secret::new(element(credentials, "SecretAccessKey")?),
            session: Some(Secret::new(element(credentials, "SessionToken")?)),
            expires_at: Some(instant(element(credentials, "Expiration")?)?),
        })
    }

    /// Reports whether they are valid for a while longer.
    pub(super) fn are_valid(&self, now: SystemTime, fetched_at: SystemTime) -> bool {
        self.expires_at.is_none_or(|end| {
            let life = end.duration_since(fetched_at).unwrap_or_default();
            let left = end.duration_since(now).unwrap_or_default();
            left > RESERVE.min(life / RESERVE_PART)
        })
    }
}

/// Returns the text of the first element of this name. Keys have no character that XML escapes.
pub(super) fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_read_from_both_forms() {
        let json = r#"{"Code":"Success","AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"1970-01-01T00:01:40Z"}"#;
        let xml = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
            <SessionToken>T</SessionToken><SecretAccessKey>S</SecretAccessKey><Expiration>1970-01-01T00:01:40Z</Expiration>
            <AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
        let epoch = SystemTime::UNIX_EPOCH;
        let after = |seconds| epoch + Duration::from_secs(seconds);
        let keys = Keys {
            id: "A".to_owned(),
            secret: Secret::new("S"),
            session: Some(Secret::new("T")),
            expires_at: Some(after(100)),
        };
        assert_eq!(Keys::from_json(json).as_ref(), Some(&keys));
        assert_eq!(Keys::from_xml(xml).as_ref(), Some(&keys));
        assert!(keys.are_valid(after(79), epoch) && !keys.are_valid(after(80), epoch));
        assert_eq!(Keys::from_json("{}"), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(text: String, xml in "(<Credentials>|</Credentials>|<AccessKeyId>|a){0,9}") {
            for text in [text, xml] {
                prop_assert!(Keys::from_json(&text).is_none());
                prop_assert!(Keys::from_xml(&text).is_none());
            }
        }
    }
}

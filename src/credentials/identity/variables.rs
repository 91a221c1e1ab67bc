//! Variables of the environment that name an identity of a cloud.

use std::collections::BTreeMap;

use super::error::IdentityError;
use crate::secret::Secret;

const PREFIXES: [&str; 4] = ["AZURE_", "IDENTITY_", "IMDS_", "GCE_METADATA_"];
const NAMES: [&str; 2] = ["GOOGLE_APPLICATION_CREDENTIALS", "MSI_ENDPOINT"];

/// The variables. `Debug` shows their names alone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Variables(BTreeMap<String, Secret>);

impl Variables {
    /// Keeps the variables that count, unless they are empty.
    pub(crate) fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, value): (String, String)| {
            let counts =
                PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name.as_str());
            (counts && !value.is_empty()).then(|| (name, Secret::new(value)))
        };
        Self(variables.into_iter().filter_map(ours).collect())
    }

    /// Reads the variables of this process.
    pub(crate) fn of_process() -> Self {
        Self::of(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// Returns a variable that another one needs.
    pub(super) fn needed(&self, name: &'static str, by: &'static str) -> Result<&str, IdentityError> {
        self.get(name).ok_or(IdentityError::Missing { name, by })
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

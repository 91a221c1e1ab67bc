//! PostgreSQL from Maven Central: the archives of io.zonky.test.postgres.
//!
//! ```text
//!   maven (maven-metadata.xml → newest version → .sha512 → .jar) ──client──▶ proxy ──▶ https
//!     └─▶ unpack: jar ▶ .txz ▶ tar ▶ folder
//! ```
//!
//! # Invariants
//! - Nothing is unpacked whose SHA-512 is not the published one.
//! - All that is read or written has a limit, and nothing is written outside the folder.

mod client;
mod error;
mod maven;
mod proxy;
mod unpack;

use std::path::Path;

pub(super) use error::FetchError;

/// Unpacks the newest PostgreSQL of a major version into a folder that it makes: `bin`, `lib` and `share`.
pub(super) async fn fetch(major: u16, folder: &Path) -> Result<(), FetchError> {
    let client = client::Client::new()?;
    let archive = maven::Repository::central().newest(&client, major).await?;
    unpack::unpack(&archive.jar, folder).map_err(|source| FetchError::Archive { url: archive.url, source })
}

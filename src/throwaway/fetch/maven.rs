//! Archives of a Maven repository.

use std::env::consts;

use sha2::{Digest as _, Sha512};

use super::FetchError;
use super::client::Client;

const CENTRAL: &str = "https://repo1.maven.org/maven2/io/zonky/test/postgres";

/// The list of versions is a few kilobytes.
const METADATA_BYTES_MAX: usize = 1 << 20;
/// 128 digits.
const CHECKSUM_BYTES_MAX: usize = 1 << 10;
/// Most bytes of an archive. Those of 2026 are 15 to 25 megabytes.
const JAR_BYTES_MAX: usize = 256 << 20;

/// A Maven repository, down to the group of the archives.
pub(super) struct Repository {
    url: String,
}

/// An archive whose SHA-512 is the published one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Archive {
    pub(super) url: String,
    pub(super) jar: Vec<u8>,
}

impl Repository {
    pub(super) fn central() -> Self {
        Self { url: CENTRAL.to_owned() }
    }

    /// Fetches the newest archive of a major version, for this machine.
    pub(super) async fn newest(&self, client: &Client, major: u16) -> Result<Archive, FetchError> {
        let artifact = artifact();
        let folder = format!("{}/{artifact}", self.url);
        let listing = format!("{folder}/maven-metadata.xml");
        let metadata = client.get(&listing, METADATA_BYTES_MAX).await?;
        let metadata = String::from_utf8_lossy(&metadata);
        let Some(version) = newest(&metadata, major) else {
            return Err(FetchError::NoVersion { url: listing, major });
        };
        let url = format!("{folder}/{version}/{artifact}-{version}.jar");
        let checksum = client.get(&format!("{url}.sha512"), CHECKSUM_BYTES_MAX).await?;
        let jar = client.get(&url, JAR_BYTES_MAX).await?;
        if !has_checksum(&jar, &checksum) {
            return Err(FetchError::Checksum { url });
        }
        Ok(Archive { url, jar })
    }
}

/// Returns the name of the archives' artifact.
fn artifact() -> String {
    let os = match consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let architecture = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64v8",
        "arm" => "arm32v7",
        "x86" => "i386",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("embedded-postgres-binaries-{os}-{architecture}")
}

/// Returns the newest version of a major one; betas and whatever else is not three numbers do not count.
fn newest(metadata: &str, major: u16) -> Option<&str> {
    let (_, versions) = metadata.split_once("<versions>")?;
    let (versions, _) = versions.split_once("</versions>")?;
    let each = versions.split("<version>").skip(1).filter_map(|rest| Some(rest.split_once("</version>")?.0));
    let numbered = each.filter_map(|version| Some((numbers(version.trim())?, version.trim())));
    let newest = numbered.filter(|((found, ..), _)| *found == major).max_by_key(|(numbers, _)| *numbers);
    newest.map(|(_, version)| version)
}

fn numbers(version: &str) -> Option<(u16, u16, u16)> {
    let mut parts = version.split('.').map(|part| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    });
    let numbers = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(numbers)
}

fn has_checksum(bytes: &[u8], published: &[u8]) -> bool {
    let digits: String = Sha512::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    published.trim_ascii().eq_ignore_ascii_case(digits.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::test_server::serve_each;
    use crate::throwaway::fetch::client::tests::{answer, client, run};
    use proptest::prelude::*;

    const METADATA: &str = "<metadata><artifactId>x</artifactId><versioning><latest>19.0.0</latest>
        <release>18.10.0</release><versions><version>18.9.0</version><version>18.10.0</version>
        <version> 18.9.1 </version><version>18.11.0-1</version><version>18.12</version><version>18.+13.0</version>
        <version>18.1.2.3</version><version>9.6.24</version><version>180.0.0</version><version>19.0.0-rc1</version>
        </versions><lastUpdated>20261019210044</lastUpdated></versioning></metadata>";

    #[test]
    fn the_newest_version_of_a_major_one_is_chosen_by_number() {
        let cases = [(18, Some("18.10.0")), (9, Some("9.6.24")), (19, None), (1, None), (17, None)];
        for (major, expected) in cases {
            assert_eq!(newest(METADATA, major), expected, "{major}");
        }
        for damaged in ["", "<versions>", "<versions><version>18.1.0", "<version>18.1.0</version>", "<html>"]
        {
            assert_eq!(newest(damaged, 18), None, "{damaged}");
        }
    }

    proptest! {
        #[test]
        fn any_list_of_versions_is_read_or_refused(text: String, version: String) {
            for metadata in [text, format!("<versions><version>{version}</version></versions>")] {
                if let Some(found) = newest(&metadata, 18) {
                    prop_assert!(found.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
                }
            }
        }
    }

    #[test]
    fn an_archive_is_taken_with_its_checksum_only() {
        let jar = b"\xffthe jar";
        let digits = |bytes: &[u8]| -> String {
            Sha512::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
        };
        let (right, wrong) = (digits(jar), digits(b"another jar"));
        for (checksum, taken) in [(format!("{right}\n"), true), (wrong, false), (String::new(), false)] {
            let answers = [METADATA.as_bytes(), checksum.as_bytes(), jar];
            let (port, serving) = serve_each(answers.map(|body| answer("200 OK", body)).to_vec());
            let repository = Repository { url: format!("http://127.0.0.1:{port}/maven2") };
            let found = run(repository.newest(&client(), 18));
            let asked = serving.join().unwrap();
            let name = artifact();
            let url = format!("/maven2/{name}/18.10.0/{name}-18.10.0.jar");
            let paths = [format!("/maven2/{name}/maven-metadata.xml"), format!("{url}.sha512"), url.clone()];
            for (asked, path) in asked.iter().zip(paths) {
                assert!(asked.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{asked}");
            }
            match found {
                Ok(archive) => assert!(taken && archive.jar == jar && archive.url.ends_with(&url)),
                Err(error) => assert!(!taken && matches!(error, FetchError::Checksum { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_major_version_that_is_not_listed_is_reported() {
        let (port, _serving) = serve_each(vec![answer("200 OK", METADATA.as_bytes())]);
        let repository = Repository { url: format!("http://127.0.0.1:{port}") };
        let error = run(repository.newest(&client(), 17)).unwrap_err();
        assert!(
            error.to_string().ends_with("maven-metadata.xml lists no version of PostgreSQL 17"),
            "{error}"
        );
    }
}

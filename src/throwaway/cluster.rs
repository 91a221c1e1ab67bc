//! Files of a throwaway cluster.

use std::env;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::account::Account;
use super::{Authentication, Certificate, Error, Options};

/// Folder that any account can search, unlike a TMPDIR of root's, and that is seldom memory, unlike `/tmp`.
const PARENT: &str = "/var/tmp";
const PASSWORD_FILE: &str = "password";
const CERTIFICATE_FILE: &str = "server.crt";
const KEY_FILE: &str = "server.key";
const CLIENT_CA_FILE: &str = "client-ca.crt";

/// Makes a folder for a cluster; only we can look into it.
pub(super) fn folder(parent: Option<&Path>) -> Result<TempDir, Error> {
    let usual = || if Path::new(PARENT).is_dir() { PathBuf::from(PARENT) } else { env::temp_dir() };
    let parent = parent.map_or_else(usual, Path::to_path_buf);
    let folder = tempfile::Builder::new().prefix("outboxd-postgres-").tempdir_in(&parent);
    folder.map_err(|source| Error::folder(&parent, source))
}

/// The files of a cluster, which belong to the account that the server runs as.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    folder: &'a Path,
    account: Account,
}

impl<'a> Cluster<'a> {
    pub(super) const fn new(folder: &'a Path, account: Account) -> Self {
        Self { folder, account }
    }

    /// Gives the folder away, and returns the arguments of `initdb`.
    pub(super) fn prepare(&self, authentication: &Authentication) -> Result<Vec<String>, Error> {
        self.account.own(self.folder).map_err(|source| Error::folder(self.folder, source))?;
        let mut arguments: Vec<String> =
            ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"].map(str::to_owned).into();
        arguments.push(format!("--auth={}", method(authentication)));
        if let Authentication::ScramSha256(password) = authentication {
            let path = self.folder.join(PASSWORD_FILE);
            self.write_private(&path, password.expose())?;
            arguments.push(format!("--pwfile={}", path.display()));
        }
        Ok(arguments)
    }

    /// Writes the options into the files that `initdb` has made.
    pub(super) fn configure(&self, options: &Options) -> Result<(), Error> {
        let data = self.folder.join("data");
        if let Some(certificate) = &options.certificate {
            self.write_certificate(&data, certificate)?;
        }
        let settings = settings(self.folder, options);
        let path = data.join("postgresql.conf");
        append(&path, &settings).map_err(|source| Error::folder(&path, source))?;
        let path = data.join("pg_hba.conf");
        fs::write(&path, hba(options)).map_err(|source| Error::folder(&path, source))
    }

    fn write_certificate(&self, data: &Path, certificate: &Certificate) -> Result<(), Error> {
        self.write_private(&data.join(CERTIFICATE_FILE), &certificate.chain_pem)?;
        self.write_private(&data.join(KEY_FILE), certificate.key_pem.expose())?;
        match &certificate.client_ca_pem {
            Some(pem) => self.write_private(&data.join(CLIENT_CA_FILE), pem),
            None => Ok(()),
        }
    }

    fn write_private(&self, path: &Path, text: &str) -> Result<(), Error> {
        let written = fs::write(path, "")
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o600)))
            .and_then(|()| fs::write(path, text))
            .and_then(|()| self.account.own(path));
        written.map_err(|source| Error::folder(path, source))
    }
}

fn method(authentication: &Authentication) -> &'static str {
    match authentication {
        Authentication::Trust => "trust",
        Authentication::ScramSha256(_) => "scram-sha-256",
    }
}

fn settings(folder: &Path, options: &Options) -> String {
    let fsync = if options.skip_fsync { "off" } else { "on" };
    let folder = folder.display().to_string();
    let mut settings = vec![
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", &folder),
        ("wal_level", "logical"),
        ("fsync", fsync),
    ];
    if let Some(certificate) = &options.certificate {
        settings.extend([("ssl", "on"), ("ssl_cert_file", CERTIFICATE_FILE), ("ssl_key_file", KEY_FILE)]);
        settings.extend(certificate.client_ca_pem.as_ref().map(|_| ("ssl_ca_file", CLIENT_CA_FILE)));
    }
    settings.extend(options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    settings.into_iter().map(|(name, value)| setting(name, value)).collect()
}

/// Returns one line of `postgresql.conf`; inside its quotes a backslash escapes, and so does a second quote.
fn setting(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''"))
}

fn hba(options: &Options) -> String {
    let method = method(&options.authentication);
    let mut lines = options.hba.clone();
    lines.push(format!("local all all {method}"));
    lines.push(format!("host all all 127.0.0.1/32 {method}"));
    lines.push(format!("host replication all 127.0.0.1/32 {method}"));
    lines.into_iter().map(|line| line + "\n").collect()
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn settings_are_quoted() {
        let cases = [
            ("64MB", "work_mem = '64MB'\n"),
            ("it's", "work_mem = 'it''s'\n"),
            (r"a\b", r"work_mem = 'a\\b'"),
            ("", "work_mem = ''\n"),
        ];
        for (value, expected) in cases {
            assert_eq!(setting("work_mem", value).trim_end(), expected.trim_end());
        }
    }

    #[test]
    fn our_settings_come_first_so_that_the_users_win() {
        let options = Options { settings: vec![("fsync".into(), "on".into())], ..Options::default() };
        let text = settings(Path::new("/f"), &Options { skip_fsync: true, ..options });
        assert!(text.find("fsync = 'off'").unwrap() < text.find("fsync = 'on'").unwrap());
    }

    #[test]
    fn the_users_hba_lines_come_first() {
        let authentication = Authentication::ScramSha256(Secret::new("s"));
        let options =
            Options { authentication, hba: vec!["host all bob all reject".into()], ..Options::default() };
        let text = hba(&options);
        assert!(text.starts_with("host all bob all reject\nlocal all all scram-sha-256\n"));
        assert!(!text.contains("trust"));
    }
}

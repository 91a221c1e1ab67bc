//! Account of the throwaway server.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Error;

const PASSWD: &str = "/etc/passwd";
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// Account that the server runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// Our own.
    Ours,
    /// Another account's, because PostgreSQL refuses root.
    Lent { uid: u32, gid: u32 },
}

impl Account {
    /// Chooses the account by the owner of `folder`, which this process has created.
    pub(super) fn for_owner_of(folder: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(folder).map_err(|source| Error::folder(folder, source))?;
        if metadata.uid() != 0 {
            return Ok(Self::Ours);
        }
        let passwd = fs::read_to_string(PASSWD).map_err(|source| Error::folder(Path::new(PASSWD), source))?;
        NAMES.iter().find_map(|name| entry(&passwd, name)).ok_or(Error::NoAccount)
    }

    /// Lets the command run with the rights of this account.
    pub(super) fn lend_to(self, command: &mut Command) {
        if let Self::Lent { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
    }

    /// Gives a file or a folder to this account.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Ours => Ok(()),
            Self::Lent { uid, gid } => chown(path, Some(uid), Some(gid)),
        }
    }
}

fn entry(passwd: &str, name: &str) -> Option<Account> {
    let mut fields = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let found = fields.next() == Some(name);
        found.then_some(fields)
    })?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    (uid != 0).then_some(Account::Lent { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_third_and_fourth_field_of_passwd() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var/lib/postgresql:/bin/bash\nodd:x\n";
        let cases = [
            ("postgres", Some(Account::Lent { uid: 101, gid: 104 })),
            ("root", None),
            ("odd", None),
            ("post", None),
        ];
        for (name, expected) in cases {
            assert_eq!(entry(passwd, name), expected, "{name}");
        }
    }
}

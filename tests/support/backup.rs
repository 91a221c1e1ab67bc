use std::fs;
use std::path::PathBuf;
use std::process::Command;

use outboxd::internals::throwaway::{StopMode, ThrowawayPostgres};

use super::cache::run;
use super::wait::DEADLINE;

/// A copy of a server's data folder, as a volume snapshot is one: with its slots, its system identifier and its timeline.
#[derive(Debug)]
pub(crate) struct Backup {
    data: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// Stops the server, copies its data, and starts it again.
    pub(crate) fn take(server: &mut ThrowawayPostgres) -> Self {
        let [data, copy] = ["data", "backup"].map(|name| server.folder().join(name));
        server.stop(StopMode::Fast, DEADLINE).unwrap();
        run("cp", Command::new("cp").arg("-a").args([&data, &copy]));
        server.start_again().unwrap();
        Self { data, copy }
    }

    /// Stops the server, puts the copy in the place of its data, and starts it again.
    pub(crate) fn put_back(self, server: &mut ThrowawayPostgres) {
        server.stop(StopMode::Fast, DEADLINE).unwrap();
        fs::remove_dir_all(&self.data).unwrap();
        fs::rename(&self.copy, &self.data).unwrap();
        server.start_again().unwrap();
    }
}

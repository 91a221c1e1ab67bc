//! `outboxd debug bundle`: a folder with the facts for a bug report.
//!
//! A part that cannot be read is replaced by the reason: servers that are down are the usual case of a report.

mod args;
mod catalog;
mod error;
mod masking;

pub(in crate::cli) use args::DebugArgs;

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use args::{BundleArgs, DebugCommand};
use error::BundleError;
use masking::Masking;

use crate::cli::inspect::{config, status};
use crate::cli::prove::check;
use crate::cli::run::assemble::{AssembleError, mistakes};
use crate::cli::{asynchronously, fail, print};
use crate::config::ShownConfig;
use crate::error::{Diagnose, Exit, report};

/// Lines of the log, and the bytes that are searched for them.
const LOG_LINES_MAX: usize = 2_000;
const LOG_BYTES_MAX: u64 = 4 << 20;

/// Runs `outboxd debug`.
pub(in crate::cli) fn debug(args: &DebugArgs) -> Exit {
    let DebugCommand::Bundle(args) = &args.command;
    match bundle(args) {
        Ok(folder) => {
            let name = folder.display();
            print(&format!("{name}\n"));
            crate::cli::print_message(&format!("read it before you send it: tar -czf {name}.tar.gz {name}"));
            Exit::Ok
        }
        Err(error) => fail(&error),
    }
}

fn bundle(args: &BundleArgs) -> Result<PathBuf, BundleError> {
    let sources = args.whom.config.sources();
    if sources.is_empty() {
        return Err(AssembleError::NoConfiguration.into());
    }
    let shown = ShownConfig::load(&sources).map_err(|error| BundleError::Config(Box::new(error)))?;
    let masking = Masking::of(&shown);
    let folder = args.into.clone().unwrap_or_else(default_folder);
    let failed = |source| BundleError::Folder { path: folder.display().to_string(), source };
    fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
    let write = |name: &str, text: &str| fs::write(folder.join(name), masking.apply(text)).map_err(failed);
    let version = json!({
        "outboxd": env!("CARGO_PKG_VERSION"), "system": std::env::consts::OS, "processor": std::env::consts::ARCH,
        "time": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    });
    write("version.json", &format!("{version:#}\n"))?;
    write("configuration.json", &config::as_json(&shown, mistakes(&sources).as_ref(), true))?;
    write("check.json", &check::report(&args.whom.config))?;
    write("status.json", &quietly(status::report(&args.whom)))?;
    write("catalog.json", &quietly(catalog::read(&sources)))?;
    if let Some(log) = &args.log {
        let lines =
            last_lines(log).unwrap_or_else(|error| format!("{} cannot be read: {error}\n", log.display()));
        write("log.txt", &lines)?;
    }
    Ok(folder)
}

fn default_folder() -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("outboxd-bundle-{}", time.replace([':', '-'], "")))
}

/// Runs a query, and returns its text or the reason why there is none.
fn quietly<E: Diagnose>(work: impl Future<Output = Result<String, E>>) -> String {
    let outcome =
        asynchronously(async { Ok::<_, AssembleError>(work.await.unwrap_or_else(|error| report(&error))) });
    outcome.unwrap_or_else(|exit| format!("ended with exit code {}", exit.code())) + "\n"
}

fn last_lines(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let skipped = text.lines().count().saturating_sub(LOG_LINES_MAX);
    Ok(text.lines().skip(skipped).map(|line| format!("{line}\n")).collect())
}

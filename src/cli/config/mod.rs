//! `outboxd config show | convert`: the configuration that is in force, and the same in another form. No server is asked.

mod args;
mod convert;
mod show;

pub(super) use args::ConfigCommandArgs;
pub(super) use convert::property;

use args::ConfigCommand;

use super::assemble::AssembleError;
use super::{fail, say};
use crate::config::{ConfigError, ShownConfig};
use crate::error::Exit;

/// `outboxd config`.
pub(super) fn config(args: &ConfigCommandArgs) -> Exit {
    let given = match &args.command {
        ConfigCommand::Show(args) => &args.config,
        ConfigCommand::Convert(args) => &args.config,
    };
    let sources = given.sources();
    if sources.is_empty() {
        return fail(&AssembleError::NoConfiguration);
    }
    let config = match ShownConfig::load(&sources) {
        Ok(config) => config,
        Err(error) => return fail(&error),
    };
    match &args.command {
        ConfigCommand::Show(args) => show::show(&config, args),
        // What is not whole is not written down again.
        ConfigCommand::Convert(args) if config.problems.is_empty() => convert::convert(&config, args.to),
        ConfigCommand::Convert(_) => {}
    }
    match ConfigError::of(config.problems) {
        Some(error) => fail(&error),
        None => Exit::Ok,
    }
}

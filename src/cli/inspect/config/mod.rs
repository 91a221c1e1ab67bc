//! `outboxd config show | convert`: the effective configuration, and the same in another format. No server is contacted.

mod args;
mod convert;
mod show;

pub(in crate::cli) use args::ConfigCommandArgs;
pub(in crate::cli) use convert::property;
pub(in crate::cli) use show::as_json;

use args::ConfigCommand;

use crate::cli::run::assemble::{AssembleError, mistakes};
use crate::cli::{fail, print_message};
use crate::config::{ConfigError, ShownConfig};
use crate::error::Exit;

/// Runs `outboxd config`.
pub(in crate::cli) fn config(args: &ConfigCommandArgs) -> Exit {
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
    let error = match &args.command {
        ConfigCommand::Show(args) => {
            let mistakes = mistakes(&sources);
            show::show(&config, mistakes.as_ref(), args);
            mistakes
        }
        // What is not whole is not written down again.
        ConfigCommand::Convert(args) if config.problems.is_empty() => {
            convert::convert(&config, args.to);
            None
        }
        ConfigCommand::Convert(_) => ConfigError::of(config.problems),
    };
    // Last, where it is visible.
    error.map_or(Exit::Ok, |error| fail(&error))
}

//! Completions for a shell and pages for `man`: made from the same description of the command line that reads
//! it.

use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::args::Args as CommandLine;
use crate::cli::{print, print_message};
use crate::error::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Write a page for each command into this folder; without it the one of outboxd goes to standard output
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Runs `outboxd completions`.
pub(in crate::cli) fn completions(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "outboxd", &mut script);
    print(&String::from_utf8_lossy(&script));
    Exit::Ok
}

/// Runs `outboxd man`.
pub(in crate::cli) fn man(args: &ManArgs) -> Exit {
    let written = match &args.into {
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(CommandLine::command(), folder)),
        None => page(),
    };
    match written {
        Ok(()) => Exit::Ok,
        Err(error) => {
            print_message(&format!("error: the pages cannot be written\n  because: {error}"));
            Exit::Failed
        }
    }
}

fn page() -> io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(CommandLine::command()).render(&mut text)?;
    print(&String::from_utf8_lossy(&text));
    Ok(())
}

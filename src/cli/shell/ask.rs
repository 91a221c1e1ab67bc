//! Confirmations on a terminal.

use std::io::{IsTerminal as _, stderr, stdin};

use crate::cli::{print_message, print_text};
use crate::error::Exit;

/// Answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Answer {
    Yes,
    No,
}

impl Answer {
    /// Returns the exit code: a request that was not carried out is no success.
    pub(in crate::cli) const fn exit(self) -> Exit {
        match self {
            Self::Yes => Exit::Ok,
            Self::No => Exit::Failed,
        }
    }
}

/// Prompts on a terminal for a word, the name of the object to destroy: a `y` is typed too easily. Without a
/// terminal the answer is no.
pub(in crate::cli) async fn confirmed(word: &str, yes: bool, doing: &str) -> Answer {
    ask(&format!("type {word} if you mean it: "), |line| line == word, yes, doing).await
}

/// Prompts on a terminal for the creation of an object, which can be undone.
pub(in crate::cli) async fn agreed(question: &str, yes: bool, doing: &str) -> Answer {
    let is_yes = |line: &str| ["y", "yes"].contains(&line.to_ascii_lowercase().as_str());
    ask(&format!("{question} [y/N] "), is_yes, yes, doing).await
}

async fn ask(question: &str, is_yes: impl Fn(&str) -> bool, yes: bool, doing: &str) -> Answer {
    if yes {
        return Answer::Yes;
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        print_message(&format!(
            "nothing changed: stdin is not a terminal. The same command with --yes {doing}"
        ));
        return Answer::No;
    }
    print_text(question);
    let typed = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    match typed.await {
        Ok(Ok(line)) if is_yes(line.trim()) => Answer::Yes,
        _ => {
            print_message("nothing was done");
            Answer::No
        }
    }
}

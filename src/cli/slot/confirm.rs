use std::io::{IsTerminal as _, stderr, stdin};

use crate::cli::{say, talk};

/// What came of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
}

/// Asks on a terminal for the slot's name: a `y` is typed too easily. Elsewhere nobody is asked, and the answer is no.
pub(super) async fn confirmed(slot: &str, yes: bool, doing: &str) -> Answer {
    if yes {
        return Answer::Yes;
    }
    if !stdin().is_terminal() || !stderr().is_terminal() {
        say(&format!("nothing was done: --yes {doing}"));
        return Answer::No;
    }
    talk(&format!("type {slot} if you mean it: "));
    let typed = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    match typed.await {
        Ok(Ok(line)) if line.trim() == slot => Answer::Yes,
        _ => {
            say("nothing was done");
            Answer::No
        }
    }
}

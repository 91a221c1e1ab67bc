//! A program that prints a credential.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process;
use zeroize::Zeroizing;

use super::source::Credential;
use super::{Error, answer, mask};

/// The most bytes that are read of a command's output. An answer of that length may be cut and is refused.
const OUTPUT_MAX: u64 = 64 << 10;
/// Room for the output, and for the read that finds its end.
const OUTPUT_CAPACITY: usize = (64 << 10) + 64;

/// Output of a command, which is wiped when it is dropped.
type Output = Zeroizing<Vec<u8>>;

/// A program with its arguments. `Debug` shows the program alone: arguments may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command {
    program: String,
    arguments: Vec<String>,
}

/// A text that is no command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidCommand {
    /// There is no word in it.
    #[error("it names no program")]
    Empty,
    /// A quote is not closed.
    #[error("a quote in it is not closed")]
    OpenQuote,
}

impl Command {
    /// Reads words between spaces. Quotes keep spaces in a word; outside of single quotes a backslash keeps the next character. No shell reads it.
    ///
    /// # Errors
    /// When there is no word, or a quote is open.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidCommand> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote: Option<char> = None;
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None | Some('"'), '\\') => {
                    word.get_or_insert_default().push(chars.next().ok_or(InvalidCommand::OpenQuote)?);
                }
                (None, c) if c.is_whitespace() => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        if quote.is_some() {
            return Err(InvalidCommand::OpenQuote);
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or(InvalidCommand::Empty)?;
        Ok(Self { program, arguments: words.collect() })
    }

    /// Runs it, logs its stderr and reads its answer. Dropping the future ends the program.
    pub(super) async fn run(&self, option: &str) -> Result<Credential, Error> {
        let program = || self.program.clone();
        let not_run = |source| Error::NotRun { option: option.to_owned(), program: program(), source };
        let (status, stdout, stderr) = self.output().await.map_err(not_run)?;
        let is_whole = u64::try_from(stdout.len()).is_ok_and(|length| length < OUTPUT_MAX);
        let read = is_whole.then_some(stdout.as_slice()).ok_or("the answer has 64 KiB or more");
        let read = read.and_then(|stdout| std::str::from_utf8(stdout).map_err(|_| "the answer is not UTF-8"));
        let read = read.and_then(|text| answer::parse(text, SystemTime::now()));
        let value = read.as_ref().ok().map(|credential| credential.value.expose());
        for line in mask::lines(&String::from_utf8_lossy(&stderr), value) {
            if status.success() {
                tracing::info!(component = "credentials", program = self.program, "stderr: {line}");
            } else {
                tracing::warn!(component = "credentials", program = self.program, "stderr: {line}");
            }
        }
        if !status.success() {
            return Err(Error::Failed {
                option: option.to_owned(),
                program: program(),
                status: status.to_string(),
            });
        }
        read.map_err(|reason| Error::Answer { option: option.to_owned(), reason })
    }

    async fn output(&self) -> io::Result<(ExitStatus, Output, Output)> {
        let mut child = process::Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr, status) = tokio::join!(read(stdout), read(stderr), child.wait());
        Ok((status?, stdout?, stderr?))
    }
}

/// Reads up to the limit and closes the pipe, which ends a program that prints without end.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Output> {
    // A buffer that grew would leave copies of what it had.
    let mut bytes = Zeroizing::new(Vec::with_capacity(OUTPUT_CAPACITY));
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_MAX).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let cases: [(&str, Result<&[&str], InvalidCommand>); 8] = [
            ("vault read -field=password db/creds", Ok(&["vault", "read", "-field=password", "db/creds"])),
            ("  sh -c 'echo \"a  b\"' ", Ok(&["sh", "-c", "echo \"a  b\""])),
            ("p \"a \\\" b\" c\\ d ''", Ok(&["p", "a \" b", "c d", ""])),
            ("p '\\n'", Ok(&["p", "\\n"])),
            ("p \"x", Err(InvalidCommand::OpenQuote)),
            ("p \\", Err(InvalidCommand::OpenQuote)),
            ("  ", Err(InvalidCommand::Empty)),
            ("'' x", Err(InvalidCommand::Empty)),
        ];
        for (text, expected) in cases {
            let words = Command::parse(text)
                .map(|command| std::iter::once(command.program).chain(command.arguments).collect::<Vec<_>>());
            assert_eq!(
                words,
                expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_command_or_refused(text: String) {
            if let Ok(command) = Command::parse(&text) {
                prop_assert!(!command.program.is_empty());
            }
        }
    }
}

//! Lines of a command's stderr without secrets.

const MASK: &str = "********";
/// The rest of a line behind one of these words is masked, and so is the value of an assignment to a name with it.
const WORDS: [&str; 6] = ["password", "passwd", "secret", "token", "authorization", "bearer"];
/// More of a command's lines are not logged.
const LINES_MAX: usize = 20;
/// More of a line is not logged.
const CHARACTERS_MAX: usize = 300;

/// Returns the lines that may be logged: without the value, and without what follows a word such as `token=`.
pub(super) fn lines(text: &str, value: Option<&str>) -> Vec<String> {
    let filled = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    filled.take(LINES_MAX).map(|line| masked(line, value)).collect()
}

fn masked(line: &str, value: Option<&str>) -> String {
    let line = match value.filter(|value| !value.is_empty()) {
        Some(value) => line.replace(value, MASK),
        None => line.to_owned(),
    };
    let mut shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Some(at) = secret_at(&shown) {
        shown.truncate(at);
        shown.push_str(MASK);
    }
    shown.chars().take(CHARACTERS_MAX).collect()
}

/// Returns where a secret may begin: behind `word=`, `word:` or `Bearer `.
fn secret_at(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    let ends = WORDS.iter().flat_map(|word| lower.match_indices(word).map(|(at, word)| at + word.len()));
    ends.filter_map(|end| {
        let rest = lower.get(end..)?;
        let name =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '"' | '\'')))?;
        let begin = rest.get(name..)?;
        let is_bearer = lower.get(..end)?.ends_with("bearer") && begin.starts_with(' ');
        (is_bearer || begin.starts_with(['=', ':'])).then_some(end.saturating_add(name).saturating_add(1))
    })
    .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_may_be_a_secret_is_masked() {
        let cases = [
            ("connection refused: vault:8200", "connection refused: vault:8200"),
            ("got s3cret for you", "got ******** for you"),
            ("DB_PASSWORD=hunter2", "DB_PASSWORD=********"),
            ("{\"access_token\": \"x\"}", "{\"access_token\":********"),
            ("> Authorization: Bearer abc", "> Authorization:********"),
            ("sent Bearer abc", "sent Bearer ********"),
            ("the token has expired", "the token has expired"),
            ("tokens_path=/x", "tokens_path=********"),
            ("a\u{1b}[31mb", "a [31mb"),
        ];
        for (line, expected) in cases {
            assert_eq!(lines(line, Some("s3cret")), [expected], "{line}");
        }
        assert_eq!(lines(&"a\n".repeat(100), None).len(), LINES_MAX);
    }

    proptest! {
        #[test]
        fn any_line_is_masked(line: String, value in "[a-z]{6,9}") {
            let text = format!("{line} {value}");
            prop_assert!(lines(&text, Some(&value)).iter().all(|line| !line.contains(&value)));
        }
    }
}

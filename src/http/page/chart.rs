use maud::{Markup, html};

use crate::telemetry::SAMPLES_MAX;

const HEIGHT: f64 = 40.0;

/// A quarter of an hour, drawn. The newest sample is at the right, whatever their number.
pub(super) fn chart(samples: &[f64], class: &str) -> Markup {
    let most = samples.iter().copied().fold(0.0, f64::max);
    let label = format!("the last quarter of an hour, at most {most:.1} events a second");
    html! {
        svg class=(class) role="img" aria-label=(label) viewBox={ "0 0 " (steps()) " 40" } preserveAspectRatio="none" {
            title { (label) }
            @if !samples.is_empty() { path d=(path(samples, most)) {} }
        }
    }
}

const fn steps() -> usize {
    SAMPLES_MAX.saturating_sub(2)
}

/// The line, and the ground under it.
fn path(samples: &[f64], most: f64) -> String {
    let first = SAMPLES_MAX.saturating_sub(1).saturating_sub(samples.len());
    let mut path = format!("M{first} {HEIGHT}");
    for (step, sample) in samples.iter().enumerate() {
        let share = if most > 0.0 { sample / most } else { 0.0 };
        let height = HEIGHT - share * (HEIGHT - 2.0);
        path.push_str(&format!("L{} {height:.1}", first.saturating_add(step)));
    }
    let last = first.saturating_add(samples.len()).saturating_sub(1);
    path.push_str(&format!("L{last} {HEIGHT}Z"));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sample_is_at_the_right() {
        assert_eq!(path(&[0.0, 2.0, 1.0], 2.0), "M176 40L176 40.0L177 2.0L178 21.0L178 40Z");
        let full = vec![0.0; SAMPLES_MAX - 1];
        let path = path(&full, 0.0);
        assert!(path.starts_with("M0 40L0 40.0") && path.ends_with("L178 40.0L178 40Z"), "{path}");
        assert_eq!(steps(), 178);
    }

    #[test]
    fn nothing_is_no_line() {
        assert!(!chart(&[], "large").into_string().contains("<path"));
    }
}

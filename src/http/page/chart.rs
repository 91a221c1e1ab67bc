//! Charts of the status page.

use maud::{Markup, html};

use crate::telemetry::SAMPLES_MAX;

const HEIGHT: f64 = 40.0;

/// Draws the chart with a scale at its left: from 0 to the next round number.
pub(super) fn chart_with_scale(samples: &[f64], class: &str) -> Markup {
    let top = top(samples);
    html! {
        div .scaled {
            div .scale.soft aria-hidden="true" {
                span { (number(top)) "/s" } span { (number(top / 2.0)) } span { "0" }
            }
            (svg(samples, class, top))
        }
    }
}

/// Returns the end of the scale: 1, 2 or 5 times a power of ten.
fn top(samples: &[f64]) -> f64 {
    let most = samples.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0].map(|step| step * power).into_iter().find(|top| *top >= most).unwrap_or(10.0 * power)
}

/// Formats a number of the scale without zeros behind the point.
fn number(value: f64) -> String {
    if value >= 1_000.0 { format!("{}k", value / 1_000.0) } else { format!("{value}") }
}

/// Draws a quarter of an hour. The newest sample is at the right, whatever their number.
pub(super) fn chart(samples: &[f64], class: &str) -> Markup {
    svg(samples, class, samples.iter().copied().fold(0.0, f64::max))
}

fn svg(samples: &[f64], class: &str, top: f64) -> Markup {
    let most = samples.iter().copied().fold(0.0, f64::max);
    let label = format!("the last quarter of an hour, at most {most:.1} events a second");
    html! {
        svg class=(class) role="img" aria-label=(label) viewBox={ "0 0 " (steps()) " 40" } preserveAspectRatio="none" {
            title { (label) }
            @if !samples.is_empty() { path d=(path(samples, top)) {} }
        }
    }
}

const fn steps() -> usize {
    SAMPLES_MAX.saturating_sub(2)
}

/// Returns the path of the line, and of the area under it.
fn path(samples: &[f64], top: f64) -> String {
    let first = SAMPLES_MAX.saturating_sub(1).saturating_sub(samples.len());
    let mut path = format!("M{first} {HEIGHT}");
    for (step, sample) in samples.iter().enumerate() {
        let share = if top > 0.0 { sample / top } else { 0.0 };
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
    fn the_scale_ends_at_a_round_number() {
        for (most, expected, shown) in
            [(0.0, 1.0, "1"), (0.3, 0.5, "0.5"), (7.0, 10.0, "10"), (1_200.0, 2_000.0, "2k")]
        {
            let top = top(&[0.0, most]);
            assert!((top - expected).abs() < 1e-9, "{most}: {top}");
            assert_eq!(number(expected), shown);
        }
        let html = chart_with_scale(&[3.0], "large").into_string();
        assert!(html.contains("<span>5/s</span><span>2.5</span><span>0</span>"), "{html}");
    }

    #[test]
    fn nothing_is_no_line() {
        assert!(!chart(&[], "large").into_string().contains("<path"));
    }
}

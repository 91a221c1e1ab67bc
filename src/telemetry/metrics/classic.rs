//! Prometheus' older text format.

/// Converts OpenMetrics text to Prometheus' text format 0.0.4: there a counter's family is named as its
/// samples are, an info is a gauge, and there are no units and no end.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut page = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|text| text.split_once(' '))
        {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, words)) = help.take() {
                page.push_str(&format!("# HELP {name}{ending} {words}\n"));
            }
            page.push_str(&format!("# TYPE {name}{ending} {kind}\n"));
        } else if !line.starts_with('#') {
            page.push_str(line);
            page.push('\n');
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_their_samples_are() {
        let open_metrics = "# HELP outboxd_transactions Transactions.\n# TYPE outboxd_transactions counter\n\
            outboxd_transactions_total 7\n# HELP outboxd_build The program.\n# TYPE outboxd_build info\n\
            outboxd_build_info{version=\"1\"} 1\n# HELP outboxd_lag_bytes Lag.\n# TYPE outboxd_lag_bytes gauge\n\
            # UNIT outboxd_lag_bytes bytes\noutboxd_lag_bytes 3\n# EOF\n";
        let expected = "# HELP outboxd_transactions_total Transactions.\n# TYPE outboxd_transactions_total counter\n\
            outboxd_transactions_total 7\n# HELP outboxd_build_info The program.\n# TYPE outboxd_build_info gauge\n\
            outboxd_build_info{version=\"1\"} 1\n# HELP outboxd_lag_bytes Lag.\n# TYPE outboxd_lag_bytes gauge\n\
            outboxd_lag_bytes 3\n";
        assert_eq!(classic(open_metrics), expected);
    }
}

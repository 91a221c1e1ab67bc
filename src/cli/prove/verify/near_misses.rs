//! Tables that this configuration does not capture, though they are probably meant.

use super::error::VerifyError;
use crate::postgres::{Sql, TableFacts};
use crate::relay::{RelayParts, in_the_publication, near_miss};

/// Most tables that are reported.
const TOLD_MAX: usize = 10;

/// Returns a line for each table that is published and nearly captured, as in `check`.
pub(super) async fn find(
    sql: &Sql,
    parts: &RelayParts,
    captured: &[TableFacts],
) -> Result<Vec<String>, VerifyError> {
    let Some(publication) = sql.publication(&parts.postgres.publication.name).await? else {
        return Ok(Vec::new());
    };
    let all = sql.tables().await?;
    let is_captured = |table: &&TableFacts| {
        captured.iter().any(|other| other.oid == table.oid || table.root == Some(other.oid))
    };
    let lines =
        all.iter().filter(|table| !is_captured(table) && publication.publishes(table)).filter_map(|table| {
            let reason = parts.tables.excluded_by(&table.schema, &table.name).unwrap_or("columns");
            let shown = format!("{}.{}", table.schema, table.name);
            let warning = near_miss(&parts.route, &shown, &table.columns, reason).or_else(|| {
                let named = publication.tables.contains(&table.oid) && !reason.ends_with(".exclude.list");
                named.then(|| in_the_publication(&shown, reason))
            })?;
            let pattern = fancy_regex::escape(&shown);
            Some(format!(
                "{warning}. They are not checked here; to check them: -X \
                          table.include.list={pattern}"
            ))
        });
    Ok(lines.take(TOLD_MAX).collect())
}

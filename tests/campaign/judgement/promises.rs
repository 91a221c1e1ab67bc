//! Deviations that docs/guarantees.md allows a run: repeats, order, and stops.

use crate::course::service::{Role, SUSPICION, Service, Stop};
use crate::facts::Allowances;
use crate::plan::draw::Draw;
use crate::plan::feature::{Fault, Feature};

pub(crate) fn allowances(draw: &Draw, service: &Service) -> Allowances {
    let is_second = service.role != Role::First;
    let has = |feature: Feature| draw.has(feature);
    let is_resent = service.resent || service.gap.is_resent || has(Feature::AlwaysSnapshot);
    let moved = [
        // A snapshot reads a table that was swapped by its new name.
        ("b", has(Feature::KeyColumns) || has(Feature::NewPrimaryKey) || has(Feature::Swapped) && is_resent),
        // Rows without a key: the relay that captures the table first finds it gone, and its rows do not contain the key.
        (
            "c",
            has(Feature::Renamed) || has(Feature::Dropped) && has(Feature::ListGrows) && draw.full_identity,
        ),
        // A signal reads the children of a table with it.
        ("child", has(Feature::Inherited)),
    ];
    let all = ["a", "b", "c", "outbox"].map(|place| (place, has(Feature::PartitionsAdded)));
    let is_transactional =
        draw.guarantee == Feature::ExactlyOnce && !has(Feature::GuaranteeChanged) && !is_second;
    // Rows are written into the room of rows that were deleted, and a snapshot reads them in the table's order.
    let reads_in_table_order = draw.begins_with_snapshot()
        && service.role != Role::Migrated
        && (has(Feature::Cleanup) || has(Feature::CleanupCommand));
    Allowances {
        repeats: match service.role {
            // Rows of an outbox come again without a mark.
            Role::First => is_resent && draw.shape != Feature::Tables || repeats(draw),
            Role::Second => true,
            // The poller's producer is not idempotent.
            Role::Migrated => {
                draw.guarantee != Feature::ExactlyOnce || draw.faults.contains(&Fault::KafkaRestarted)
            }
        },
        copied: has(Feature::Swapped).then(|| "b".to_owned()).into_iter().collect(),
        moved: moved
            .into_iter()
            .chain(all)
            .filter(|(_, is_moved)| *is_moved)
            .map(|(place, _)| place.to_owned())
            .collect(),
        replayed: has(Feature::Replayed) && !is_second,
        // Without track_commit_timestamp a move sends rows in the order in which their transactions began to write.
        reread: is_resent && draw.shape != Feature::Tables
            || has(Feature::Moved) && !is_second
            || reads_in_table_order,
        late_records: draw.faults.contains(&Fault::Replaced) && !is_transactional && !is_second,
    }
}

fn repeats(draw: &Draw) -> bool {
    let has = |feature: Feature| draw.has(feature);
    let is_refused = has(Feature::TooLarge) || has(Feature::Unroutable);
    match draw.guarantee {
        _ if has(Feature::GuaranteeChanged) => true,
        Feature::ExactlyOnce => false,
        // A row is not known again when its table or the configuration makes another record of it.
        Feature::TailDedupe => {
            draw.faults.contains(&Fault::Replaced)
                || !draw.later.is_empty()
                || is_refused
                || draw.features.iter().any(|feature| feature.is_operation())
        }
        _ => {
            is_refused || draw.faults.iter().any(|fault| !matches!(fault, Fault::Stopped | Fault::KafkaSlow))
        }
    }
}

/// Returns whether the draw explains an alarm: that the publication was changed, or that a table may have been unlogged, which ALTER
/// TABLE may do when it rewrites a table.
pub(crate) fn explains_alarm(draw: &Draw, service: &Service, line: &str) -> bool {
    if line.contains(SUSPICION) {
        return service.gap.is_begun;
    }
    let names = ["table public.t_b ", "table public.t_b_old "];
    draw.has(Feature::TypeChanged) && names.iter().any(|name| line.contains(name))
}

/// Returns whether the draw explains an exit that the relay chose. A wrong answer here hides a false alarm, so the
/// reasons are printed.
pub(crate) fn explains(draw: &Draw, service: &Service, stop: &Stop) -> bool {
    match stop.code {
        3 if service.gap.is_begun && stop.reason.contains("publication") => true,
        _ if service.role == Role::Migrated => matches!(stop.code, 1 | 4 | 5),
        6 => draw.has(Feature::TooLarge),
        7 => draw.has(Feature::SlotDropped) && service.role == Role::First,
        3 => draw.has(Feature::ListGrows) || draw.features.iter().any(|feature| feature.is_operation()),
        // Reported as complaints.
        1 | 4 | 5 => true,
        _ => false,
    }
}

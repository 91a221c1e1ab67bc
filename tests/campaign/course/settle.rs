//! The end of a run: waiting for what is on its way, the verdict, and the last stop.

use std::time::{Duration, Instant};

use pg_replication::wal::Lsn;

use crate::course::outcome::Outcome;
use crate::course::service::{Role, SUSPICION, Service};
use crate::course::setup::Site;
use crate::course::trial::Trial;
use crate::facts::{Need, Tables};
use crate::judgement::evidence::Moments;
use crate::judgement::{agreement, evidence, promises};
use crate::oracle::{Verdict, judge};
use crate::plan::feature::Feature;
use crate::planted::Planted;
use crate::support::wait::{DEADLINE, eventually, let_pass};

/// Records that are missing after this time without progress are lost.
const QUIET: Duration = Duration::from_secs(12);
/// The same if a relay may have been killed in an open Kafka transaction, and the next one has another guarantee. Until the brokers
/// abort the transaction (`transaction.timeout.ms`, 60 s), consumers of committed records see nothing behind it.
const QUIET_BEHIND_TRANSACTION: Duration = Duration::from_secs(80);

impl Trial<'_> {
    pub(super) fn finish(mut self) -> Outcome {
        self.note("settling");
        let verdicts = self.settle();
        self.note("settled");
        let mut violations = std::mem::take(&mut self.complaints);
        let is_planted = self.planted.is_some();
        let verified = if is_planted && self.planted != Some(Planted::VerifyLooksAway) {
            "not asked".to_owned()
        } else {
            agreement::check(&self, &verdicts[0], &mut violations)
        };
        for service in &mut self.services {
            let code = if service.given_up.is_none() { service.stop() } else { 0 };
            if code != 0 {
                violations.push(format!("ended: the last stop, exit {code}: {}", service.said()));
            }
            violations.append(&mut service.complaints);
            violations.extend(service.gap.complaint());
            let alarms = service.alarms();
            let again = alarms.iter().skip(service.gap.settled_at.unwrap_or(usize::MAX));
            let again = again.filter(|line| line.contains(SUSPICION));
            violations.extend(again.map(|line| format!("alarm: again, although it is settled: {line}")));
            let alarms =
                alarms.iter().filter(|line| !promises::explains_alarm(&self.site.draw, service, line));
            violations.extend(alarms.map(|line| format!("alarm: {line}")));
        }
        if let Some(calls) = self.site.trusted_names() {
            violations.push(format!("trusted: {calls} look-alikes of PostgreSQL's functions were run"));
        }
        let stops = self.services.iter().flat_map(|service| service.stops.clone()).collect::<Vec<_>>();
        for service in &self.services {
            let stops = service.stops.iter();
            let unexplained = stops.filter(|stop| !promises::explains(&self.site.draw, service, stop));
            violations
                .extend(unexplained.map(|stop| format!("unexplained: exit {}: {}", stop.code, stop.reason)));
        }
        for (service, verdict) in self.services.iter().zip(&verdicts) {
            let is_waiting = service.given_up.is_some();
            let counts = |violation: &&String| {
                !is_waiting || !(violation.starts_with("lost") || violation.starts_with("stale"))
            };
            violations.extend(
                verdict
                    .violations
                    .iter()
                    .filter(counts)
                    .map(|violation| format!("{violation} ({})", service.name)),
            );
        }
        Outcome {
            violations,
            stops: stops.iter().map(|stop| format!("exit {}: {}", stop.code, stop.reason)).collect(),
            given_up: self.services.iter().find_map(|service| service.given_up.clone()),
            verified,
            changes: verdicts.iter().map(|verdict| verdict.changes).sum(),
            records: verdicts.iter().map(|verdict| verdict.records).sum(),
            repeats: verdicts.iter().map(|verdict| verdict.repeats).sum(),
            log: self.log,
            took: self.began.elapsed(),
            draw: self.site.draw,
        }
    }

    /// Waits until everything is confirmed and the oracle has nothing to complain of, or nothing more arrives.
    fn settle(&mut self) -> Vec<Verdict> {
        let target = self.site.db.current_wal_lsn();
        let (mut before, mut moved) = ((Vec::new(), 0_usize), Instant::now());
        loop {
            self.services.iter_mut().for_each(|service| service.look_after(&self.world.kafka));
            let confirmed = self.confirmed();
            let is_confirmed = confirmed.iter().all(|lsn| lsn.is_none_or(|lsn| lsn >= target));
            let verdicts: Vec<Verdict> = (0..self.services.len()).map(|number| self.judge(number)).collect();
            // Behind the target the WAL grows without the relays.
            let so_far: Vec<_> = confirmed.iter().map(|lsn| lsn.map(|lsn| lsn.min(target))).collect();
            let now = (so_far, verdicts.iter().map(|verdict| verdict.records).sum());
            if now != before {
                (before, moved) = (now, Instant::now());
            }
            let is_clean = verdicts.iter().all(|verdict| verdict.violations.is_empty());
            if is_confirmed && is_clean {
                return verdicts;
            }
            let changes_guarantee = self.site.draw.has(Feature::GuaranteeChanged);
            if moved.elapsed() > if changes_guarantee { QUIET_BEHIND_TRANSACTION } else { QUIET } {
                if !is_confirmed {
                    let said: String = self.services.iter().map(Service::said).collect();
                    self.complaints
                        .push(format!("stuck: {confirmed:?} and not {target} is confirmed: {said}"));
                }
                return verdicts;
            }
            let_pass(Duration::from_millis(200));
        }
    }

    pub(crate) fn wait_until_confirmed(&mut self) {
        let target = self.site.db.current_wal_lsn();
        eventually(DEADLINE, "everything is confirmed", || {
            self.confirmed().iter().all(|lsn| lsn.is_none_or(|lsn| lsn >= target))
        });
    }

    /// Returns the confirmed position of each service's slot; `None` for a service that waits for the operator.
    fn confirmed(&self) -> Vec<Option<Lsn>> {
        let of = |service: &Service| {
            let sql = "SELECT coalesce(confirmed_flush_lsn, '0/0')::text FROM pg_replication_slots WHERE slot_name = $1";
            let rows = self.site.db.query(sql, &[&service.name]);
            let lsn = rows.first().map_or("0/0", |row| row.get::<_, &str>(0)).parse().unwrap();
            service.given_up.is_none().then_some(lsn)
        };
        self.services.iter().map(of).collect()
    }

    fn judge(&self, number: usize) -> Verdict {
        let service = &self.services[number];
        let draw = &self.site.draw;
        let most = match service {
            Service { accepted: true, .. } => Some(Need::Nothing),
            Service { resent: true, .. } => Some(Need::State),
            _ => None,
        };
        let moments =
            Moments { most, gap_resent: service.gap.is_resent || service.resent, ..self.moments.clone() };
        let (seen, strange) = evidence::seen(&self.world.kafka, &service.name);
        let changes = evidence::changes(&self.site.db, draw, &moments, service.role);
        let is_outbox = service.role == Role::Migrated;
        let tables = if is_outbox { Tables::new() } else { evidence::tables(&self.site.db) };
        let mut verdict = judge(&changes, &seen, &tables, &promises::allowances(draw, service));
        verdict.violations.extend(strange);
        verdict
    }

    /// Waits until everything works again: each service streams, and has sent the snapshot that it was started for, or waits for the
    /// operator.
    pub(crate) fn recover(&mut self, after: &str) {
        let began = Instant::now();
        loop {
            let mut streams = true;
            for service in &mut self.services {
                service.look_after(&self.world.kafka);
                streams &= service.given_up.is_some()
                    || is_streaming(&self.site, &service.name) && !service.owes_snapshot();
            }
            if streams && !self.complete_snapshots() {
                return;
            }
            if began.elapsed() > DEADLINE {
                let said: String = self.services.iter().map(Service::said).collect();
                return self.complaints.push(format!("stuck: not streaming after {after}: {said}"));
            }
            let_pass(Duration::from_millis(30));
        }
    }

    /// Lets each service send what its partial snapshot has excluded and the stream may lack. Returns false if there was none.
    fn complete_snapshots(&mut self) -> bool {
        let lacking: Vec<usize> =
            (0..self.services.len()).filter(|number| self.services[*number].lacks_rows()).collect();
        for number in &lacking {
            let code = self.services[*number].stop();
            self.note(&format!("stopped to send what a snapshot excluded: exit {code}"));
            self.wait_until_free_of(*number);
            self.services[*number].send_all_rows(&self.world.kafka);
        }
        !lacking.is_empty()
    }
}

fn is_streaming(site: &Site, slot: &str) -> bool {
    let sql = format!(
        "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
         WHERE slot_name = '{slot}' AND state IN ('catchup', 'streaming')"
    );
    site.db.try_query(&sql).is_ok_and(|rows| !rows.is_empty())
}

//! `outboxd migrate` takes the outbox `polled` over from its poller, under a fault and while rows are written.

use std::fs;
use std::time::Instant;

use crate::course::service::{Role, Service};
use crate::course::trial::Trial;
use crate::plan::feature::Fault;
use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, let_pass};
use crate::support::watcher::Watcher;

/// Exit codes that no fault of a run explains: the usage, what the database has, and a lost slot.
const REFUSED: [i32; 3] = [2, 3, 7];

impl Trial<'_> {
    /// Begins the migration under a fault, and starts the relay of the outbox that is migrated.
    pub(super) fn migrate(&mut self, fault: Option<Fault>) {
        let folder = Watcher::new("outboxd-campaign-");
        let mut start = self.migration(&folder, &["start"]);
        self.pause(0..600);
        if let Some(fault) = fault {
            self.inflict(fault);
            // Whatever befalls a relay befalls the command.
            if fault <= Fault::Replaced {
                start.kill();
                start = self.migration(&folder, &["start"]);
            }
            self.pause(100..800);
            self.heal(fault);
        }
        if self.is_through(start, &folder, &["start"]) {
            let (name, config) = (self.site.migrated(), self.site.migrated_config(self.world));
            self.services.push(Service::start(Role::Migrated, name, config, Vec::new()));
            self.recover("the migration");
        }
    }

    /// Leads the migration to its end or back, or leaves it, while rows are written.
    pub(super) fn end_migration(&mut self) {
        let Some(number) = self.services.iter().position(|service| service.role == Role::Migrated) else {
            return;
        };
        if self.services[number].given_up.is_some() {
            return;
        }
        let folder = Watcher::new("outboxd-campaign-");
        match self.site.draw.seed % 3 {
            0 => {
                drop(self.poller.take());
                let code = self.services[number].stop();
                self.note(&format!("stopped for the end of the migration: exit {code}"));
                self.wait_until_free_of(number);
                let arguments = ["finish", "--yes", "--poller-is-stopped"];
                let finish = self.migration(&folder, &arguments);
                self.is_through(finish, &folder, &arguments);
                self.services[number].start_again();
            }
            1 => {
                let back = self.migration(&folder, &["rollback", "--hold", "20s"]);
                self.is_through(back, &folder, &["rollback", "--hold", "20s"]);
            }
            _ => {}
        }
        self.recover("the end of the migration");
        self.pause(200..800);
    }

    /// Waits for the command, and runs it again as long as it fails for a reason that passes.
    fn is_through(&mut self, mut command: Relay, folder: &Watcher, arguments: &[&str]) -> bool {
        let began = Instant::now();
        loop {
            let code = command.wait_for_exit(DEADLINE);
            self.note(&format!("migrate {}: exit {code}", arguments[0]));
            match code {
                0 => return true,
                _ if REFUSED.contains(&code) || began.elapsed() > DEADLINE => {
                    let said = format!("{} {}", command.stdout(), command.stderr());
                    self.complaints.push(format!("migrate: {}, exit {code}: {said}", arguments[0]));
                    return false;
                }
                _ => let_pass(std::time::Duration::from_millis(100)),
            }
            command = self.migration(folder, arguments);
        }
    }

    fn migration(&self, folder: &Watcher, arguments: &[&str]) -> Relay {
        let file = folder.path("config.json");
        fs::write(&file, serde_json::to_vec(&self.site.migrated_config(self.world)).unwrap()).unwrap();
        let target = ["-c", &file, "--mark", self.site.mark().argument()];
        Relay::command(&[&["migrate", arguments[0]], &target[..], &arguments[1..]].concat())
    }
}

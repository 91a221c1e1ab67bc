//! Resource usage of a process, from Linux's /proc; other systems report nothing.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

/// Ticks a second of the times in /proc.
static TICKS: LazyLock<f64> = LazyLock::new(|| {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    let ticks = output.and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse().ok());
    ticks.unwrap_or(100.0)
});

#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Time on a CPU, user and system, of all its threads.
    pub(crate) cpu: Duration,
    /// The most memory it had.
    pub(crate) peak_bytes: Option<u64>,
}

/// Current state of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process {
    Running(Usage),
    /// It has ended, and is not reaped yet: its time is still reported, its memory no more.
    Ended(Usage),
    /// There is no such process, or no /proc.
    Unknown,
}

pub(crate) fn process(pid: u32) -> Process {
    let Some((state, cpu)) = stat(pid) else { return Process::Unknown };
    let peak_bytes = memory(pid, "VmHWM:");
    let usage = Usage { cpu, peak_bytes };
    if state == "Z" { Process::Ended(usage) } else { Process::Running(usage) }
}

/// Returns the usage of a process so far; `None` where the system does not report it.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    match process(pid) {
        Process::Running(usage) | Process::Ended(usage) => Some(usage),
        Process::Unknown => None,
    }
}

/// Returns the memory in use now.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

impl Usage {
    /// Returns the usage since `earlier`. The peak is the process's.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), ..self }
    }
}

/// Returns state, and time on a CPU. The text before them is the program's name, which may contain anything.
fn stat(pid: u32) -> Option<(String, Duration)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let (user, system) = (ticks(11)?, ticks(12)?);
    Some(((*fields.first()?).to_owned(), Duration::from_secs_f64((user + system) / *TICKS)))
}

fn memory(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

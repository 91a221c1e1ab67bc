//! The `process_*` series that Prometheus' own clients have. They are read from `/proc` at each scrape; where there is
//! none, they are absent.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Ticks a second in `/proc`: the same on every architecture of Linux that Rust builds for.
const TICKS: f64 = 100.0;

/// Fields of `/proc/PID/stat` behind the name, which may contain blanks: utime, stime, starttime.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;

/// Reader of the facts of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// Facts of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    cpu_seconds: f64,
    /// Seconds between the start of the system and that of the process.
    started_after_boot: f64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |path| fs::read_to_string(path).ok();
        if let Some(times) = read("/proc/self/stat").and_then(|text| times(&text)) {
            let counter = ConstCounter::new(times.cpu_seconds);
            let help = "Seconds of processor time, user and system";
            counter.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                counter.metric_type(),
            )?)?;
            if let Some(boot) = read("/proc/stat").and_then(|text| boot_time(&text)) {
                let help = "Start of the process, in seconds since 1970";
                gauge(&mut encoder, "process_start_time_seconds", help, boot + times.started_after_boot)?;
            }
        }
        if let Some(bytes) = read("/proc/self/status").and_then(|text| resident_bytes(&text)) {
            gauge(&mut encoder, "process_resident_memory_bytes", "Bytes of memory in use", bytes)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of them is the folder itself.
            let open = u32::try_from(open.count().saturating_sub(1)).unwrap_or(u32::MAX);
            gauge(&mut encoder, "process_open_fds", "Open file descriptors", f64::from(open))?;
        }
        if let Some(max) = read("/proc/self/limits").and_then(|text| open_files_max(&text)) {
            gauge(&mut encoder, "process_max_fds", "Limit of open file descriptors", max)?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn times(stat: &str) -> Option<Times> {
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(Times {
        cpu_seconds: (ticks(USER_TIME)? + ticks(SYSTEM_TIME)?) / TICKS,
        started_after_boot: ticks(START_TIME)? / TICKS,
    })
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
}

fn open_files_max(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::telemetry::metrics::{ConfigInfo, Metrics};

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 5 0 300 1000 25 0";
        assert_eq!(times(stat), Some(Times { cpu_seconds: 2.0, started_after_boot: 3.0 }));
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000.0));
        assert_eq!(resident_bytes("VmHWM: 9 kB\nVmRSS:\t     2 kB\n"), Some(2048.0));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096   files\n";
        assert_eq!(open_files_max(limits), Some(1024.0));
        for nothing in ["", "7 (", "btime", "VmRSS: 7", "Max open files unlimited"] {
            assert_eq!((times(nothing), boot_time(nothing)), (None, None));
            assert_eq!((resident_bytes(nothing), open_files_max(nothing)), (None, None));
        }
    }

    #[test]
    fn the_process_has_the_series_of_prometheus_own_clients() {
        let page = Metrics::new(&ConfigInfo::default()).encode_classic().unwrap();
        let value = |name: &str| -> f64 {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is not in\n{page}")).parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 1.0 && value("process_open_fds") <= value("process_max_fds"));
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
            - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}

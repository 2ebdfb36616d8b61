//! The process itself, as Linux reports it. Values that cannot be read are left out.

use std::fs::read_to_string;
use std::time::Duration;

#[derive(Debug, Default, PartialEq)]
pub(super) struct ProcessStats {
    /// CPU time, in the process and in the kernel.
    pub(super) cpu: Option<Duration>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<usize>,
    pub(super) most_files: Option<u64>,
    /// When it started, epoch seconds.
    pub(super) started: Option<f64>,
}

/// Ticks per second in the kernel's statistics; Linux has promised programs 100 for decades.
const TICKS: u64 = 100;

impl ProcessStats {
    pub(super) fn read() -> Self {
        let read = |path| read_to_string(path).unwrap_or_default();
        let fields = StatFields::parse(&read("/proc/self/stat"));
        let boot = number_after(&read("/proc/stat"), "btime");
        Self {
            cpu: fields.as_ref().map(|fields| Duration::from_millis(fields.cpu * 1_000 / TICKS)),
            resident_bytes: number_after(&read("/proc/self/status"), "VmRSS:").map(|kibibytes| kibibytes * 1_024),
            open_files: std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            most_files: number_after(&read("/proc/self/limits"), "Max open files"),
            started: fields.zip(boot).map(|(fields, boot)| seconds(boot, fields.started)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 lie far below the precision of a float")]
fn seconds(boot: u64, ticks: u64) -> f64 {
    boot as f64 + ticks as f64 / TICKS as f64
}

/// From `/proc/self/stat`, in ticks.
#[derive(Debug, PartialEq, Eq)]
struct StatFields {
    cpu: u64,
    /// Since the machine booted.
    started: u64,
}

impl StatFields {
    fn parse(stat: &str) -> Option<Self> {
        // The program's name is in brackets and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self { cpu: number(11)? + number(12)?, started: number(19)? })
    }
}

/// The first number on the line that starts like this.
fn number_after(text: &str, beginning: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(beginning))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 4242 9 9";
        assert_eq!(StatFields::parse(stat), Some(StatFields { cpu: 200, started: 4242 }));
        assert_eq!(StatFields::parse("7 (short) S 1"), None);
        let limits = "Max open files            1024                 4096                 files     \n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024));
        assert_eq!(number_after("Max open files   unlimited", "Max open files"), None);
        assert!((seconds(1_000, 50) - 1_000.5).abs() < f64::EPSILON);
    }

    #[test]
    fn this_process_is_known() {
        let stats = ProcessStats::read();
        assert!(stats.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{stats:?}");
        assert!(stats.open_files.is_some_and(|files| files >= 3), "{stats:?}");
        assert!(stats.cpu.is_some() && stats.started.is_some_and(|at| at > 1e9), "{stats:?}");
    }
}

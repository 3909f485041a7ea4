//! Memory and processor time of a process, from the kernel.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks a second in `/proc/<pid>/stat`: 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// Resident memory, in MiB.
///
/// # Errors
/// When the process is gone.
pub fn resident(pid: i32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().context("read VmRSS")?;
    Ok(kibibytes / 1024.0)
}

/// Processor time so far, user and system.
///
/// # Errors
/// When the process is gone.
pub fn processor_time(pid: i32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let ticks = ticks(&text).with_context(|| format!("{path} has no times"))?;
    Ok(Duration::from_secs_f64(ticks / TICKS))
}

/// User and system time are the 14th and 15th field; the name before them may hold anything.
fn ticks(stat: &str) -> Option<f64> {
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut fields = behind.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_an_odd_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some(200.0));
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(resident(pid).unwrap() > 0.5);
        assert!(processor_time(pid).is_ok());
    }
}

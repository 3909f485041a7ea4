//! Child processes: how long they live, where they log, how they end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// What a child outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It ends with this process, however this process ends.
    WithThisProcess,
    /// It runs in a session of its own until it is stopped by its pid.
    OnItsOwn,
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What messages and the log file call it.
    pub name: String,
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment added to this process's own.
    pub env: Vec<(String, String)>,
    /// The directory its log `<name>.log` goes to; the log is appended to.
    pub logs: PathBuf,
    /// What it outlives.
    pub lifetime: Lifetime,
}

/// One process of this machine, told apart from a later one of the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid.
    pub pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks after boot.
    pub started: u64,
}

/// A started program.
pub struct Running {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: ProcessId,
    log: PathBuf,
    child: Child,
}

impl Launch {
    /// The file that the program's output goes to.
    pub fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be executed.
    pub fn start(&self) -> Result<Running> {
        let log = self.log();
        fs::create_dir_all(&self.logs).with_context(|| format!("create {}", self.logs.display()))?;
        let open =
            || File::options().create(true).append(true).open(&log).with_context(|| format!("open {}", log.display()));
        // The wrappers of util-linux do between fork and exec what std would need unsafe code for;
        // both replace themselves by the program, so the pid is the program's.
        let mut command = match self.lifetime {
            Lifetime::WithThisProcess => wrapped("setpriv", &["--pdeathsig", "KILL", "--"]),
            Lifetime::OnItsOwn => wrapped("setsid", &["--"]),
        };
        command.arg(&self.program).args(&self.args).envs(self.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(open()?).stderr(open()?);
        let child = spawn(command).with_context(|| format!("start {} ({})", self.name, self.program.display()))?;
        let pid = i32::try_from(child.id()).context("a pid out of range")?;
        let id = ProcessId::of(pid).ok_or_else(|| anyhow!("{} ended at once; see {}", self.name, log.display()))?;
        Ok(Running { name: self.name.clone(), id, log, child })
    }
}

fn wrapped(wrapper: &str, options: &[&str]) -> Command {
    let mut command = Command::new(wrapper);
    command.args(options);
    command
}

/// The kernel sends the death signal when the *thread* that forked ends, so every child is forked by
/// one thread that lives as long as this process.
fn spawn(command: Command) -> Result<Child> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                // The asker may have gone; then nobody wants the answer.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    spawner.send((command, reply)).map_err(|_| anyhow!("the thread that starts processes has ended"))?;
    let child = answer.recv().context("the thread that starts processes has ended")?;
    child.map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            anyhow!("setpriv and setsid are missing: apt-get install util-linux")
        } else {
            error.into()
        }
    })
}

impl Running {
    /// Fails when the program has ended, with the end of its log.
    ///
    /// # Errors
    /// As said, or when its state cannot be read.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("look after {}", self.name))? {
            None => Ok(()),
            Some(status) => {
                bail!("{} ended ({status}); the end of {}:\n{}", self.name, self.log.display(), tail(&self.log))
            }
        }
    }

    /// Ends the program: TERM, then KILL when it has not ended within `grace`; reaps it.
    pub fn stop(mut self, grace: Duration) {
        self.id.stop(grace);
        // Already killed, so this returns at once and only takes the exit status away.
        let _ = self.child.wait();
    }
}

impl ProcessId {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)? })
    }

    /// Whether it still runs (a zombie does not).
    pub fn alive(self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        started(&stat) == Some(self.started) && !matches!(state(&stat), Some('Z' | 'X'))
    }

    /// Sends `signal`, if it still runs.
    pub fn signal(self, signal: Signal) {
        if let Some(fd) = self.pidfd() {
            // It may end between the look and the signal; then there is nothing to do.
            let _ = pidfd_send_signal(&fd, signal);
        }
    }

    /// TERM, then KILL when it has not ended within `grace`. Returns when it has ended.
    pub fn stop(self, grace: Duration) {
        self.signal(Signal::TERM);
        if !self.wait(grace) {
            self.signal(Signal::KILL);
            self.wait(Duration::from_secs(10));
        }
    }

    /// Waits for its end; false when `limit` passed first.
    pub fn wait(self, limit: Duration) -> bool {
        let Some(fd) = self.pidfd() else { return true };
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&limit)), Ok(ready) if ready > 0)
    }

    fn pidfd(self) -> Option<std::os::fd::OwnedFd> {
        let fd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Opened first, compared second: from here on the descriptor cannot mean another process.
        self.alive().then_some(fd)
    }
}

/// The fields after the command's name, which may itself hold blanks and parentheses.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).into_iter().flatten()
}

fn state(stat: &str) -> Option<char> {
    after_name(stat).next()?.chars().next()
}

fn started(stat: &str) -> Option<u64> {
    after_name(stat).nth(19)?.parse().ok()
}

/// The last lines of a log, for messages.
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_read_behind_an_odd_name() {
        let stat = "12 (a) b (c)) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        assert_eq!(started(stat), Some(98765));
        assert_eq!(state(stat), Some('S'));
    }

    #[test]
    fn a_stopped_process_is_gone_and_a_reused_pid_is_left_alone() {
        let logs = tempfile::tempdir().unwrap();
        let launch = Launch {
            name: "sleeper".into(),
            program: "/bin/sleep".into(),
            args: vec!["600".into()],
            env: Vec::new(),
            logs: logs.path().into(),
            lifetime: Lifetime::WithThisProcess,
        };
        let running = launch.start().unwrap();
        let id = running.id;
        let another = ProcessId { started: id.started + 1, ..id };
        another.stop(Duration::ZERO);
        assert!(id.alive() && !another.alive());
        running.stop(Duration::from_secs(5));
        assert!(!id.alive());
    }
}

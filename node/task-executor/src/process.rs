//! Processes: starting one with a group of its own, finding all that came of it, signalling and reaping.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::output::TaskDir;
use crate::task::Process;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Makes orphans of our descendants ours even where we are not PID 1, so that none is left unreaped.
///
/// # Errors
/// What the kernel says.
pub fn adopt_orphans() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true).map_err(io::Error::from)
}

/// Starts `process` as the leader of a new process group, its output in `dir`, and returns its pid.
///
/// The caller reaps it: the pid stays taken until then. Nothing else may reap while this runs, since a failed start
/// waits for its own child.
///
/// # Errors
/// What is missing or forbidden, naming the path.
pub fn start(process: &Process, dir: &TaskDir) -> io::Result<Pid> {
    let mut words = process.command.iter().chain(&process.args);
    let program = words.next().ok_or_else(|| io::Error::other("process.command is empty"))?;
    if !process.working_dir.is_empty() && !Path::new(&process.working_dir).is_dir() {
        let message = format!("process.workingDir {:?} is not a directory", process.working_dir);
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let nothing =
        File::open("/dev/null").map_err(|error| io::Error::new(error.kind(), format!("/dev/null: {error}")))?;
    let (stdout, stderr) = dir.open()?;
    let mut command = Command::new(program);
    command.args(words).stdin(nothing).stdout(stdout).stderr(stderr).process_group(0);
    if !process.working_dir.is_empty() {
        command.current_dir(&process.working_dir);
    }
    for variable in process.env.iter().filter(|variable| variable.value_from.is_none()) {
        command.env(&variable.name, &variable.value);
    }
    let child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

/// Reaps one ended child, ours or adopted; `None` when none has ended.
pub fn reap() -> Option<(Pid, Exit)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, Exit::Code(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                return Some((pid, Exit::Signal(signal as i32)));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            // Stops and continues are only reported when asked for; an interrupted call is made again.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// A living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Living {
    /// Its id.
    pub pid: Pid,
    /// The id of its group.
    pub group: Pid,
}

/// Every living descendant of this process, zombies left out.
///
/// # Errors
/// `/proc` cannot be read: then nobody can say what lives.
pub fn descendants() -> io::Result<Vec<Living>> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ended since the listing has no stat any more.
        let Some(stat) = std::fs::read_to_string(entry.path().join("stat")).ok().and_then(|text| Stat::of(pid, &text))
        else {
            continue;
        };
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut open = vec![std::process::id().cast_signed()];
    while let Some(parent) = open.pop() {
        for stat in children.remove(&parent).unwrap_or_default() {
            open.push(stat.pid);
            if !stat.ended {
                found.push(Living { pid: Pid::from_raw(stat.pid), group: Pid::from_raw(stat.group) });
            }
        }
    }
    Ok(found)
}

/// Signals every one of `living`, whole groups at once where the group is led by `leader`, so that no member can
/// fork past the signal.
pub fn signal(living: &[Living], leader: Pid, signal: Signal) {
    // The group's id cannot be another's: a member that is our descendant was just seen in it.
    if living.iter().any(|process| process.group == leader) {
        let _ = killpg(leader, signal);
    }
    for process in living.iter().filter(|process| process.group != leader) {
        let _ = kill(process.pid, signal);
    }
}

struct Stat {
    pid: i32,
    parent: i32,
    group: i32,
    ended: bool,
}

impl Stat {
    /// `pid (name) state ppid pgrp …`; the name may hold anything, so the fields are counted from its last bracket.
    fn of(pid: i32, text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        Some(Self {
            pid,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            ended: matches!(state, "Z" | "X" | "x"),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_named_like_a_stat_line_is_read_right() {
        let stat = Stat::of(7, "7 (a) Z 1 (b) S 3 5 5 0 -1").unwrap();
        assert_eq!((stat.parent, stat.group, stat.ended), (3, 5, false));
    }
}

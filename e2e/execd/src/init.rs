//! `execd --init -- COMMAND`: the sandbox's first process, with the entry point and execd itself as its children.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

/// Starts both, passes SIGTERM and SIGINT on to the entry point's group, reaps every orphan, and answers the entry
/// point's exit code. The runtime starts no process here, so nothing else waits for any.
///
/// # Errors
/// One of the two cannot be started.
pub async fn follow(entry_point: &[String], execd: &[String]) -> anyhow::Result<i32> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut child = signal(SignalKind::child())?;
    let own = std::env::current_exe().context("cannot find execd's own program")?;
    let execd = start(&own.to_string_lossy(), execd)?;
    let (program, arguments) = entry_point.split_first().context("the entry point is empty")?;
    let entry_point = start(program, arguments)?;
    loop {
        tokio::select! {
            _ = term.recv() => drop(killpg(entry_point, Signal::SIGTERM)),
            _ = int.recv() => drop(killpg(entry_point, Signal::SIGINT)),
            _ = child.recv() => if let Some(code) = reap(entry_point) {
                // As PID 1 this would follow from leaving.
                let _ = killpg(execd, Signal::SIGKILL);
                return Ok(code);
            },
        }
    }
}

fn start(program: &str, arguments: &[String]) -> anyhow::Result<Pid> {
    let child = Command::new(program)
        .args(arguments)
        .process_group(0)
        .spawn()
        .with_context(|| format!("{program} cannot be started"))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

/// The exit code of `entry_point` once it is among those reaped.
fn reap(entry_point: Pid) -> Option<i32> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == entry_point => return Some(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == entry_point => {
                return Some(128 + signal as i32);
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

//! Signals are taken by one thread that waits for them; no code runs in a handler.

use std::sync::Arc;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::supervisor::Supervisor;

/// Blocks the signals that this program takes, in this thread and all that it starts. Processes are started with
/// none blocked: the standard library clears their mask.
///
/// # Errors
/// What the kernel says.
pub fn block() -> std::io::Result<SigSet> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    signals.thread_block()?;
    Ok(signals)
}

/// Tells the supervisor: a child ended, or the Pod is to end. A second SIGTERM cuts the grace short.
///
/// # Errors
/// The thread cannot be started.
pub fn forward(signals: SigSet, supervisor: Arc<Supervisor>) -> std::io::Result<()> {
    let wait = move || {
        loop {
            match signals.wait() {
                Ok(Signal::SIGTERM | Signal::SIGINT) => supervisor.end(),
                Ok(_) | Err(_) => supervisor.look(),
            }
        }
    };
    thread::Builder::new()
        .name("signals".into())
        .stack_size(64 * 1024)
        .spawn(wait)
        .map(drop)
}

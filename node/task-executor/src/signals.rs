//! Signals are taken by one thread that waits for them; nothing but noting them is done in a handler.
//!
//! They are never blocked: a process that is started inherits the mask of the thread that starts it, the standard
//! library does not clear it, and a task that cannot be asked to end would have to be killed.

use std::io;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::supervisor::Supervisor;

/// From here on these signals wait to be looked at. As PID 1 they would be lost before.
///
/// # Errors
/// What the kernel says.
pub fn take() -> io::Result<Signals> {
    Signals::new([SIGCHLD, SIGTERM, SIGINT])
}

/// Tells the supervisor: a child ended, or the Pod is to end. A second SIGTERM cuts the grace short.
///
/// # Errors
/// The thread cannot be started.
pub fn forward(mut signals: Signals, supervisor: Arc<Supervisor>) -> io::Result<()> {
    let wait = move || {
        for signal in signals.forever() {
            match signal {
                SIGTERM | SIGINT => supervisor.end(),
                _ => supervisor.look(),
            }
        }
    };
    thread::Builder::new().name("signals".into()).stack_size(64 * 1024).spawn(wait).map(drop)
}

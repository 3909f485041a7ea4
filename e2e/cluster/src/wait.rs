//! Waiting for something outside this process, aloud: a wait that takes long says what it waits for.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const PROBE_EVERY: Duration = Duration::from_millis(50);
const SPEAK_EVERY: Duration = Duration::from_secs(5);

/// What one probe found.
pub enum Probe<T> {
    /// It is there.
    Done(T),
    /// Not yet; the reason is told to whoever waits.
    NotYet(String),
}

/// Probes until done. Every 5 seconds a line on stderr tells what is missing and the time so far.
///
/// # Errors
/// When `limit` has passed (with the last reason), or when a probe says that waiting is in vain.
pub async fn until<T, F, P>(what: &str, limit: Duration, mut probe: F) -> Result<T>
where
    F: FnMut() -> P,
    P: Future<Output = Result<Probe<T>>>,
{
    let begun = Instant::now();
    let mut spoken = begun;
    loop {
        let why = match probe().await? {
            Probe::Done(value) => return Ok(value),
            Probe::NotYet(why) => why,
        };
        let waited = begun.elapsed();
        if waited > limit {
            return Err(anyhow!("gave up on {what} after {} s: {why}", waited.as_secs()));
        }
        if spoken.elapsed() > SPEAK_EVERY {
            spoken = Instant::now();
            eprintln!("  waiting for {what}, {} s: {why}", waited.as_secs());
        }
        tokio::time::sleep(PROBE_EVERY).await;
    }
}

/// A step that prints its name when it begins and the time it took when it is done.
pub struct Step {
    what: String,
    begun: Instant,
}

impl Step {
    /// Says what begins.
    pub fn begin(what: impl Into<String>) -> Self {
        let what = what.into();
        eprintln!("- {what}");
        Self { what, begun: Instant::now() }
    }

    /// Says that it is done and how long it took.
    pub fn done(self) {
        eprintln!("  {} ({:.1} s)", self.what, self.begun.elapsed().as_secs_f64());
    }
}

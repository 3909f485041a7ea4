//! How the machine itself fared: on one that is overloaded, times say little about the operators.

use std::time::{Duration, Instant};

use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const EVERY: Duration = Duration::from_millis(250);

/// Asks the API server for next to nothing, again and again, and remembers the longest answer.
pub struct Probe {
    task: JoinHandle<()>,
    longest: tokio::sync::watch::Receiver<Duration>,
}

impl Probe {
    /// Begins to ask, past all proxies.
    pub fn start(client: Client) -> Self {
        let (tell, longest) = tokio::sync::watch::channel(Duration::ZERO);
        let task = tokio::spawn(async move {
            loop {
                let asked = Instant::now();
                // An answer that never comes is the longest of all.
                let _ = client.apiserver_version().await;
                tell.send_if_modified(|longest| {
                    let took = asked.elapsed();
                    let longer = took > *longest;
                    *longest = took.max(*longest);
                    longer
                });
                sleep(EVERY).await;
            }
        });
        Self { task, longest }
    }

    /// In words.
    pub fn told(&self) -> String {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or("?").to_owned();
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let longest = self.longest.borrow().as_secs_f64();
        format!("a bare GET took the API server up to {longest:.2} s meanwhile; load {load} on {processors} processors")
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! Runs the task of a sandbox inside its Pod and tells the operator how it goes.
//!
//! It is PID 1 of the sandbox container in pooled Pods: it starts what it is told over HTTP, reaps every orphan,
//! and leaves no process of a task behind when the task ends. It looks up no names and needs no file of its image.

mod entry;
mod flags;
mod http;
mod log;
mod output;
mod process;
mod routes;
mod signals;
mod supervisor;
mod task;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::flags::{Flags, Parsed};
use crate::log::Log;
use crate::supervisor::Supervisor;

fn main() -> ExitCode {
    let flags = match flags::parse(std::env::args().skip(1), |name| std::env::var(name).ok()) {
        Ok(Parsed::Run(flags)) => flags,
        Ok(Parsed::Help) => {
            eprint!("{}", flags::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("task-executor: {wrong}\n{}", flags::USAGE);
            return ExitCode::from(2);
        }
    };
    let log = Arc::new(Log::open(&flags.log_dir, flags.log_limits));
    match run(&flags, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags, log: &Arc<Log>) -> anyhow::Result<()> {
    let signals = signals::take().context("cannot take signals")?;
    process::adopt_orphans().context("cannot become the reaper of the tasks' orphans")?;
    let listener = http::listen(flags.listen_addr)
        .with_context(|| format!("cannot listen on {}: is another executor running?", flags.listen_addr))?;
    log.info(&format!("listening on {}", listener.local_addr()?));
    let supervisor =
        Arc::new(Supervisor::new(flags.data_dir.clone(), flags.stop_grace, flags.output_limit, Arc::clone(log)));
    signals::forward(signals, Arc::clone(&supervisor))?;
    let tasks = Arc::clone(&supervisor);
    http::serve(listener, Arc::clone(log), move |request| routes::answer(&tasks, request))?;
    supervisor.run();
    log.info("all tasks ended, leaving");
    Ok(())
}

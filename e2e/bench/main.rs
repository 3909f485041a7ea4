//! `make bench`: what the operator costs and how fast it is, beside a probe that does the least that anybody could.
//!
//! Each case starts a control plane of its own (etcd on disk with fsync), so that one case alone measures what it
//! measures among all. The table shows the median of all runs; every sample is in `target/bench/`.

mod bed;
mod cases;
mod cost;
mod figure;
mod load;
mod probe;
mod process;
mod report;
mod sights;
mod statistics;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use sandbox_e2e::figure as say;

use cases::Case;
use figure::Figure;
use report::Report;

/// Measures the operator on a control plane of its own.
#[derive(Parser)]
struct Arguments {
    /// Cases to run; all if none is named.
    #[arg(value_enum)]
    cases: Vec<Case>,
    /// How often; the table shows the median of each figure.
    #[arg(long, env = "RUNS", default_value_t = 1)]
    runs: u32,
    /// Only what is counted (writes, reads, requests while idle), and fail if it is above its limit.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it must be: of a bench, that it ran; of a check, that every count is within its limit.
fn run(arguments: &Arguments) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start a runtime")?;
    if arguments.check {
        let figures = runtime.block_on(cases::check())?;
        say_each(&figures);
        let report = Report::of(vec![figures]);
        report.print(1)?;
        return Ok(report.is_within_limits());
    }
    let cases = if arguments.cases.is_empty() { Case::ALL.to_vec() } else { arguments.cases.clone() };
    let mut measured = Vec::new();
    for number in 1..=arguments.runs.max(1) {
        measured.push(runtime.block_on(one_run(&cases, number, arguments.runs))?);
    }
    Report::of(measured).print(arguments.runs)?;
    Ok(true)
}

async fn one_run(cases: &[Case], number: u32, of: u32) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for case in cases {
        let begin = Instant::now();
        say!("== {} (run {number} of {of})", case.name());
        let made = case.run().await.with_context(|| format!("case {}", case.name()))?;
        report::save(case.name(), number, &made)?;
        say_each(&made);
        say!("   took {:.0} s", begin.elapsed().as_secs_f64());
        figures.extend(made);
    }
    Ok(figures)
}

fn say_each(figures: &[Figure]) {
    for figure in figures {
        say!("   {}", report::brief(figure));
    }
}

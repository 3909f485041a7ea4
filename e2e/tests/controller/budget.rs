//! The write budget, as ARCHITECTURE.md has it: what is promised there is what tests hold us to.

use anyhow::{Context, Result, ensure};
use sandbox_e2e::figure;

const PAGE: &str = include_str!("../../../ARCHITECTURE.md");

/// One row of the table: what writes a flow takes, and how many it may.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    flow: &'static str,
    writes: &'static str,
    at_most: f64,
}

/// The row of a flow that has a limit.
pub fn row(flow: &str) -> Result<Row> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with("Write budget"));
    let rows = section.context("ARCHITECTURE.md has no section \"Write budget\"")?.lines().map(cells);
    let [flow, writes, at_most] = rows
        .filter_map(|cells| cells.first_chunk::<3>().copied())
        .find(|cells| cells[0] == flow)
        .with_context(|| format!("the write budget of ARCHITECTURE.md has no row \"{flow}\""))?;
    let at_most = at_most.parse().with_context(|| format!("\"{flow}\" has no limit in ARCHITECTURE.md"))?;
    Ok(Row { flow, writes, at_most })
}

fn cells(line: &'static str) -> Vec<&'static str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// What was measured, beside what is promised.
#[derive(Default)]
pub struct Ledger(Vec<(Row, f64)>);

impl Ledger {
    pub fn enter(&mut self, flow: &str, measured: f64) -> Result<()> {
        self.0.push((row(flow)?, measured));
        Ok(())
    }

    /// Prints all that was measured, then fails for what is over its limit.
    pub fn close(&self) -> Result<()> {
        figure!("\nWrites a claim, beside the write budget of ARCHITECTURE.md:");
        figure!("  {:42} {:>8} {:>8}  budget", "flow", "measured", "at most");
        for (row, measured) in &self.0 {
            figure!("  {:42} {measured:8.2} {:8.1}  {}", row.flow, row.at_most, row.writes);
        }
        for (row, measured) in &self.0 {
            ensure!(measured <= &row.at_most, "{}: {measured:.2} writes, {} are allowed", row.flow, row.at_most);
        }
        Ok(())
    }
}

#[test]
fn the_budget_of_the_page_is_no_larger_than_what_the_tests_are_named_after() -> Result<()> {
    for (flow, promised) in [(super::writes::SERIAL, 6.5), (super::writes::BURST, 5.3), (super::writes::LIFE, 8.5)] {
        let row = row(flow)?;
        ensure!(row.at_most <= promised, "{flow}: ARCHITECTURE.md allows {}, promised are {promised}", row.at_most);
    }
    Ok(())
}

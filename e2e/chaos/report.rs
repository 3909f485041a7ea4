//! What is printed at the end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use sandbox_e2e::audit::{Fact, Invariant, Log, Violation};
use sandbox_e2e::figure;

use crate::replicas::Replica;
use crate::tally::Tally;

/// Violations shown in full.
const SHOWN: usize = 8;

/// What was done and which faults struck, how often.
pub fn tables(tally: &Tally, replicas: &[Arc<Replica>]) {
    figure!("\nwhat was done                                     times");
    for (what, times) in tally.all() {
        figure!("  {what:46} {times:6}");
    }
    let mut faults: BTreeMap<(&'static str, String), u64> = BTreeMap::new();
    let mut unharmed = 0;
    for replica in replicas {
        let (passed, counts) = replica.proxy.counts();
        unharmed += passed;
        for ((what, fault), times) in counts {
            *faults.entry((fault, what)).or_default() += times;
        }
    }
    let mut by_fault: BTreeMap<&'static str, Vec<(u64, String)>> = BTreeMap::new();
    for ((fault, what), times) in faults {
        by_fault.entry(fault).or_default().push((times, what));
    }
    figure!("\nfaults of the operators' requests                 times   ({unharmed} requests passed unharmed)");
    for (fault, mut requests) in by_fault {
        requests.sort_unstable_by(|left, right| right.cmp(left));
        let all: u64 = requests.iter().map(|(times, _)| times).sum();
        let most: Vec<String> = requests.iter().take(4).map(|(times, what)| format!("{what} {times}")).collect();
        figure!("  {fault:46} {all:6}   {}", most.join(", "));
    }
}

/// How many terms of office there were, from the Lease.
fn terms(log: &Log) -> usize {
    let mut holders: Vec<&str> = log.facts.iter().filter_map(Fact::lease_holder).collect();
    holders.retain(|holder| !holder.is_empty());
    holders.dedup();
    holders.len()
}

/// The invariants, one a line, and the first violations with the log around them.
pub fn verdict(log: &Log, found: &[Violation]) {
    figure!("\n{} terms of office", terms(log));
    figure!("\ninvariants, from {} lines of the API server's own watches:", log.facts.len());
    for invariant in Invariant::ALL {
        let broken = found.iter().filter(|violation| violation.invariant == invariant).count();
        figure!("  {invariant:?}  {broken} violations");
    }
    for gap in &log.gaps {
        figure!("  the log has a gap, so nothing is proven: {gap}");
    }
    for violation in found.iter().take(SHOWN) {
        figure!("\n{}", violation.shown(log));
    }
    if found.len() > SHOWN {
        figure!("and {} more violations", found.len() - SHOWN);
    }
}

/// Every request of an operator, for whoever looks for a cause.
pub fn journals(replicas: &[Arc<Replica>], dir: &Path) -> Result<()> {
    for replica in replicas {
        let path = dir.join(format!("{}.requests", replica.name));
        let mut out = fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
        for entry in replica.proxy.journal() {
            let code = entry.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
            let fault = entry.fault.unwrap_or("");
            let left = if entry.given_up { " sender gone" } else { "" };
            let (at, took) = (entry.at.as_secs_f64(), entry.took.as_secs_f64());
            writeln!(out, "{at:9.3} +{took:.3} {} -> {code} {fault}{left}", entry.asked)?;
        }
    }
    Ok(())
}

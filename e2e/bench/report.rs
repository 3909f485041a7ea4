//! The table, and the samples as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result};
use sandbox_cluster::home;

use crate::figure::Figure;
use crate::statistics::median;

/// Where samples go.
///
/// # Errors
/// When it cannot be made.
pub fn directory() -> Result<PathBuf> {
    let dir = home::checkout().join("target/bench");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

/// Writes what one case measured in one run.
///
/// # Errors
/// When it cannot be written.
pub fn save(case: &str, run: u32, figures: &[Figure]) -> Result<()> {
    let path = directory()?.join(format!("{case}-{run}.json"));
    fs::write(&path, serde_json::to_vec_pretty(figures)?).with_context(|| format!("write {}", path.display()))
}

/// All figures, each the median of its runs.
pub struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Of several runs.
    pub fn of(runs: Vec<Vec<Figure>>) -> Self {
        let mut order = Vec::new();
        let mut values: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
        for figure in runs.into_iter().flatten() {
            if !values.contains_key(&figure.what) {
                order.push(figure.what.clone());
            }
            values.entry(figure.what.clone()).or_default().push(figure);
        }
        Self { figures: order.iter().filter_map(|what| middle(values.remove(what)?)).collect() }
    }

    /// Whether every figure is within the limits that it has.
    pub fn is_within_limits(&self) -> bool {
        self.figures.iter().all(Figure::is_within_limits)
    }

    /// Prints the table.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn print(&self, runs: u32) -> Result<()> {
        let mut out = stdout().lock();
        let of = if runs > 1 { format!("median of {runs} runs") } else { "one run".into() };
        writeln!(out, "\n{:<64} {:>10} {:>12} {:>12} {:>16}", of, "target", "measured", "probe", "ratio (target)")?;
        for figure in &self.figures {
            writeln!(out, "{}", row(figure))?;
        }
        let over = self.figures.iter().filter(|figure| !figure.is_within_limits()).count();
        writeln!(out, "{over} of {} above target", self.figures.len())?;
        Ok(())
    }
}

/// The figure of the run in the middle, by ratio where there is one: noise of the machine is in both.
fn middle(runs: Vec<Figure>) -> Option<Figure> {
    let first = runs.first()?.clone();
    let probes: Vec<f64> = runs.iter().filter_map(|run| run.probe).collect();
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let probe = (!probes.is_empty()).then(|| median(&probes));
    Some(Figure { value: median(&values), probe, ..first })
}

fn row(figure: &Figure) -> String {
    let sign = figure.unit.sign();
    let number = |value: f64| format!("{}{sign}", digits(value));
    let limit = figure.limit.map(|limit| format!("<= {}{sign}", short(limit))).unwrap_or_default();
    let probe = figure.probe.map(number).unwrap_or_default();
    let ratio = match (figure.ratio(), figure.ratio_limit) {
        (Some(ratio), Some(limit)) => format!("{ratio:.2} (<= {limit:.1})"),
        (Some(ratio), None) => format!("{ratio:.2}"),
        (None, _) => String::new(),
    };
    let mark = if figure.is_within_limits() { "" } else { "  ABOVE" };
    format!("{:<64} {limit:>10} {:>12} {probe:>12} {ratio:>16}{mark}", figure.what, number(figure.value))
}

/// One line while it runs.
pub fn brief(figure: &Figure) -> String {
    let notes: String = figure.notes.iter().map(|note| format!("\n      {note}")).collect();
    format!("{}{notes}", row(figure))
}

fn digits(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::figure::Unit;

    #[test]
    fn of_several_runs_each_figure_is_the_middle_one() {
        let run = |value: f64| vec![Figure::new("a", Unit::Milliseconds, value).probe(value / 2.0).limit(10.0)];
        let report = Report::of(vec![run(9.0), run(30.0), run(8.0)]);
        assert_eq!(report.figures.len(), 1);
        assert_eq!(report.figures[0].value, 9.0);
        assert!(report.is_within_limits());
    }

    #[test]
    fn a_row_says_when_it_is_above_its_target() {
        let figure = Figure::new("a", Unit::Count, 7.0).limit(6.5);
        assert!(row(&figure).ends_with("ABOVE"));
        assert!(row(&figure).contains("<= 6.5"));
    }
}

//! What the reader sees: numbered steps, the commands with their output, and a table of times at the end.

use std::io::{Write, stdout};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The steps so far.
pub struct Show {
    begun: Instant,
    running: Option<(String, Instant)>,
    done: Vec<(String, Duration)>,
}

impl Show {
    /// Begins.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), running: None, done: Vec::new() }
    }

    /// Ends the step before and begins the next; what follows is explained in `about`.
    pub fn step(&mut self, what: &str, about: &str) {
        self.close();
        say(&format!("\n\x1b[1m{}. {what}\x1b[0m", self.done.len() + 1));
        if !about.is_empty() {
            say(&format!("   {about}"));
        }
        self.running = Some((what.to_owned(), Instant::now()));
    }

    fn close(&mut self) {
        if let Some((what, begun)) = self.running.take() {
            let took = begun.elapsed();
            say(&format!("   done in {:.1} s", took.as_secs_f64()));
            self.done.push((what, took));
        }
    }

    /// Ends the last step and prints how long each took.
    pub fn table(&mut self) {
        self.close();
        say("\n\x1b[1mHow long it took\x1b[0m");
        for (number, (what, took)) in self.done.iter().enumerate() {
            say(&format!("  {:2}. {what:58} {:7.1} s", number + 1, took.as_secs_f64()));
        }
        say(&format!("      {:58} {:7.1} s", "in all", self.begun.elapsed().as_secs_f64()));
    }
}

/// Prints a line.
pub fn say(line: &str) {
    // Nobody reads: the demo goes on, its exit code still counts.
    let _ = writeln!(stdout(), "{line}").and_then(|()| stdout().flush());
}

/// Shows a command as a person would type it, runs it, shows and returns what it wrote.
///
/// # Errors
/// When it cannot be run or fails.
pub fn shown(typed: &str, command: &mut Command) -> Result<String> {
    say(&format!("   $ {typed}"));
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {typed}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines() {
        say(&format!("   {line}"));
    }
    if !output.status.success() {
        bail!("{typed} failed ({}): {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// Shows a command and lets it write by itself: for those that tell their own progress.
///
/// # Errors
/// When it cannot be run or fails.
pub fn aloud(typed: &str, command: &mut Command) -> Result<()> {
    say(&format!("   $ {typed}"));
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("run {typed}"))?;
    if !status.success() {
        bail!("{typed} failed ({status}); its own words are above");
    }
    Ok(())
}

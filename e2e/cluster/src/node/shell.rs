//! Calls of the system's tools.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a tool to its end and gives its output.
///
/// # Errors
/// When it is missing or fails; the message holds its own.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {program}: it is missing; run: make setup"))?;
    if !output.status.success() {
        bail!("{program} {}: {} ({})", args.join(" "), String::from_utf8_lossy(&output.stderr).trim(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a tool whose failure means that there is nothing to do.
pub fn try_run(program: &str, args: &[&str]) {
    // What is already gone needs no removal.
    let _ = run(program, args);
}

//! Prints the CustomResourceDefinitions, writes them into a checkout, or says where a checkout differs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Makes the CustomResourceDefinitions from the types in api/. Without options: prints them all as YAML.
#[derive(Parser)]
#[command(name = "crd-gen")]
struct Options {
    /// Writes config/crd and the chart's copies.
    #[arg(long)]
    write: bool,
    /// Exits with 1 and names every file that differs from the types.
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// The checkout.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let mut out = std::io::stdout().lock();
    if options.check {
        return check(&options, &mut out);
    }
    if options.write {
        for path in crd_gen::write(&options.root)? {
            writeln!(out, "wrote {}", path.display())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for definition in crd_gen::definitions()? {
        write!(out, "---\n{}", definition.yaml()?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(options: &Options, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let drift = crd_gen::drift(&options.root)?;
    for difference in &drift {
        writeln!(out, "{difference}")?;
    }
    if drift.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "To bring the files back in line, run: cargo run -p crd-gen -- --write")?;
    Ok(ExitCode::FAILURE)
}

//! Builds every image that the tests run, without pulling any, and pushes what a registry lacks.

mod catalogue;
mod layer;
mod node;
mod oci;
mod programs;
mod registry;
mod rootfs;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use crate::catalogue::{CATALOGUE, Image};
use crate::programs::Profile;
use crate::registry::{Pushed, Registry};

/// The images of the tests, built here and pushed to a registry under the names that manifests give them.
#[derive(Parser)]
#[command(name = "sandbox-images", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build what changed and push what the registry lacks.
    BuildAndPush {
        /// HOST:PORT of a plain-HTTP registry [default: that of this checkout's cluster].
        #[arg(long)]
        registry: Option<String>,
        /// Only images whose name contains this; may be given more than once.
        #[arg(long)]
        only: Vec<String>,
        /// Operator and server as optimised programs (minutes when cold).
        #[arg(long)]
        release: bool,
    },
    /// Print the name of each image and what is in it.
    List,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::List => {
            list();
            Ok(())
        }
        Verb::BuildAndPush { registry, only, release } => {
            let profile = if release { Profile::Release } else { Profile::Debug };
            build_and_push(registry, &only, profile).await
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandbox-images: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the list is this verb's product")]
fn list() {
    for image in CATALOGUE {
        println!("{:<40} {}", image.name, image.purpose);
    }
}

async fn build_and_push(registry: Option<String>, only: &[String], profile: Profile) -> Result<()> {
    let begun = Instant::now();
    let registry = Registry::at(&registry.map_or_else(sandbox_cluster::node::registry, Ok)?);
    registry.answers().await?;
    let wanted = chosen(only)?;
    let programs: BTreeSet<_> = wanted.iter().flat_map(|image| image.programs()).collect();
    let programs = programs::build(&programs, profile)?;
    let _turn = layer::turn()?;
    let (mut pushed, mut current) = (0, Vec::new());
    for image in &wanted {
        let step = Instant::now();
        let layers = image.layers(&programs)?;
        let Pushed { new, digest } = registry.push(image, &layers).await?;
        pushed += usize::from(new);
        let what = if new { "pushed" } else { "there" };
        eprintln!("- {:<40} {what:<7} {} in {:.1} s", image.name, short(&digest), step.elapsed().as_secs_f64());
        current.push((image.name, digest));
    }
    let stale = node::forget_stale(&current)?;
    if stale > 0 {
        eprintln!("- the node forgot {stale} images whose content has changed; it will pull them anew");
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("- {} images, {pushed} of them pushed to {registry}, in {seconds:.1} s", wanted.len());
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<&'static Image>> {
    for part in only {
        if !CATALOGUE.iter().any(|image| image.name.contains(part.as_str())) {
            bail!("--only {part}: no image has that in its name; see: sandbox-images list");
        }
    }
    let wanted = |image: &&Image| only.is_empty() || only.iter().any(|part| image.name.contains(part.as_str()));
    Ok(CATALOGUE.iter().filter(wanted).collect())
}

fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

//! Brings up, and takes away, the clusters that tests and demonstrations run on.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A real Kubernetes for tests, built from Go modules.
#[derive(Parser)]
#[command(name = "sandbox-cluster", version, about)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install by apt what this machine lacks.
    Setup {
        /// Only name what is missing, with the command that brings it.
        #[arg(long)]
        check: bool,
    },
    /// Build the Go binaries into the cache (minutes when cold).
    Build {
        /// Only these, by name (such as kube-apiserver); all when none is given.
        names: Vec<String>,
    },
    /// The control plane alone, with a stand-in for the kubelet.
    Plane {
        #[command(subcommand)]
        verb: PlaneVerb,
    },
    /// Bring up the whole node: kubelet, containerd, Services, names, a registry.
    Up,
    /// Take the whole node away.
    Down {
        /// Also when another checkout holds it.
        #[arg(long)]
        force: bool,
        /// The registry's images too.
        #[arg(long)]
        purge: bool,
    },
    /// Run kubectl on the cluster in use.
    Kubectl {
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the path of the kubeconfig of the cluster in use.
    Kubeconfig,
    /// Print the path of a built binary (such as crane or helm), building it if need be.
    Which {
        /// Its name.
        name: String,
    },
    /// Say what runs.
    Status,
}

#[derive(Subcommand)]
enum PlaneVerb {
    /// Start it in the background.
    Up(PlaneArguments),
    /// End it.
    Down,
    /// Run it until interrupted.
    Serve(PlaneArguments),
}

/// What a plane of the command line is made of.
#[derive(clap::Args, Clone, Copy)]
struct PlaneArguments {
    /// Keep etcd's data on disk, with fsync.
    #[arg(long)]
    disk: bool,
    /// Let the real scheduler bind Pods.
    #[arg(long)]
    scheduler: bool,
}

fn main() -> ExitCode {
    match commands::run(Arguments::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

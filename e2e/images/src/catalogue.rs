//! What images there are, what is in each, and under which name manifests and SDK examples ask for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use sandbox_cluster::home;

use crate::layer::{self, Entry, Layer};
use crate::programs::Program;
use crate::rootfs::{self, Rootfs};

/// One image.
#[derive(Debug)]
pub struct Image {
    /// Repository and tag, without a registry: the cluster asks the local one whatever registry a manifest names.
    pub name: &'static str,
    /// For `list`.
    pub purpose: &'static str,
    root: Rootfs,
    files: &'static [File],
    /// How it is started when a manifest does not say.
    pub settings: Settings,
}

/// What an image says about how it is started.
#[derive(Debug)]
pub struct Settings {
    /// Started with the manifest's `args`.
    pub entrypoint: &'static [&'static str],
    /// Used when a manifest gives neither command nor args.
    pub command: &'static [&'static str],
    /// Relative paths begin here.
    pub directory: &'static str,
    /// Number of user and group; empty for root.
    pub user: &'static str,
}

#[derive(Debug)]
struct File {
    at: &'static str,
    from: From,
    mode: u32,
}

#[derive(Debug)]
enum From {
    Program(Program),
    /// A path in this repository.
    Checkout(&'static str),
}

const ROOT_SHELL: Settings = Settings { entrypoint: &[], command: &["/bin/bash"], directory: "/root", user: "" };
const PYTHON: Settings = Settings { entrypoint: &[], command: &["python3"], directory: "/root", user: "" };

/// Every image of the tests.
pub const CATALOGUE: &[Image] = &[
    Image {
        name: "opensandbox/code-interpreter:v1.1.0",
        purpose: "what sandboxes of the seeds run in: a shell, the usual tools, Python",
        root: Rootfs::Tools,
        files: &[],
        settings: ROOT_SHELL,
    },
    Image {
        name: "opensandbox/task-executor:v0.1.0",
        purpose: "the task-executor at /workspace/server, with a shell to copy it",
        root: Rootfs::Tools,
        files: &[File { at: "workspace/server", from: From::Program(Program::TaskExecutor), mode: 0o755 }],
        settings: Settings {
            entrypoint: &["/workspace/server"],
            command: &[],
            directory: "/workspace",
            user: "65532:65532",
        },
    },
    Image {
        name: "opensandbox/execd:v1.0.22",
        purpose: "execd and bootstrap.sh in the working directory, with a shell to copy them",
        root: Rootfs::Tools,
        files: &[
            File { at: "workspace/execd", from: From::Program(Program::Execd), mode: 0o755 },
            File { at: "workspace/bootstrap.sh", from: From::Checkout("e2e/execd/image/bootstrap.sh"), mode: 0o755 },
        ],
        settings: Settings { entrypoint: &["./execd"], command: &[], directory: "/workspace", user: "" },
    },
    Image {
        name: "opensandbox/controller:dev",
        purpose: "the operator of this checkout",
        root: Rootfs::Runtime,
        files: &[File { at: "usr/bin/opensandbox-controller", from: From::Program(Program::Controller), mode: 0o755 }],
        settings: Settings {
            entrypoint: &["/usr/bin/opensandbox-controller"],
            command: &[],
            directory: "/",
            user: "65532:65532",
        },
    },
    Image {
        name: "opensandbox/server:dev",
        purpose: "the API server of this checkout, with the template that configurations name",
        root: Rootfs::Runtime,
        files: &[
            File { at: "usr/bin/opensandbox-server", from: From::Program(Program::Server), mode: 0o755 },
            File {
                at: "etc/opensandbox/example.batchsandbox-template.yaml",
                from: From::Checkout("server/etc/opensandbox/example.batchsandbox-template.yaml"),
                mode: 0o644,
            },
        ],
        settings: Settings {
            entrypoint: &["/usr/bin/opensandbox-server"],
            command: &[],
            directory: "/",
            user: "65532:65532",
        },
    },
    Image {
        name: "library/python:3.11",
        purpose: "what the SDKs' examples call python:3.11",
        root: Rootfs::Tools,
        files: &[],
        settings: PYTHON,
    },
    Image {
        name: "library/debian:bookworm",
        purpose: "debian:bookworm, for tests that want no more than a shell",
        root: Rootfs::Tools,
        files: &[],
        settings: ROOT_SHELL,
    },
];

impl Image {
    /// Which programs must be built for it.
    pub fn programs(&self) -> impl Iterator<Item = Program> {
        self.files.iter().filter_map(|file| match file.from {
            From::Program(program) => Some(program),
            From::Checkout(_) => None,
        })
    }

    /// Its layers, lowest first, made unless the cache has them.
    ///
    /// # Errors
    /// A part cannot be built or read.
    pub fn layers(&self, programs: &BTreeMap<Program, PathBuf>) -> Result<Vec<Layer>> {
        let mut layers = vec![rootfs::layer(self.root)?];
        if !self.files.is_empty() {
            let entries: Vec<Entry> = self.files.iter().map(|file| file.entry(programs)).collect();
            layers.push(layer::of_files(self.name, &entries)?);
        }
        Ok(layers)
    }
}

impl File {
    fn entry(&self, programs: &BTreeMap<Program, PathBuf>) -> Entry {
        let (from, strip) = match self.from {
            From::Program(program) => (programs.get(&program).cloned().unwrap_or_default(), true),
            From::Checkout(path) => (home::checkout().join(Path::new(path)), false),
        };
        Entry { at: self.at, from, mode: self.mode, strip }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_that_the_seeds_name_is_built_here() {
        let seeds = include_str!("../../seeds/pools.yaml");
        let named: Vec<&str> = seeds.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
        assert!(!named.is_empty());
        for name in named {
            assert!(CATALOGUE.iter().any(|image| name.ends_with(&format!("/{}", image.name))), "{name} is missing");
        }
    }

    #[test]
    fn what_the_seeds_copy_lies_where_they_expect_it() {
        let find = |name: &str| CATALOGUE.iter().find(|image| image.name.starts_with(name));
        let files = |image: Option<&Image>| -> Vec<String> {
            image.map(|image| image.files.iter().map(|file| format!("/{}", file.at)).collect()).unwrap_or_default()
        };
        assert_eq!(files(find("opensandbox/task-executor")), ["/workspace/server"]);
        let execd = find("opensandbox/execd");
        let directory = execd.map(|image| image.settings.directory).unwrap_or_default();
        assert_eq!(files(execd), [format!("{directory}/execd"), format!("{directory}/bootstrap.sh")]);
    }
}

//! The executor's own log: a file that rotates, and standard error for `kubectl logs`.
//!
//! A task's command line, environment and output never go here: they may hold secrets.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// When the file is rotated and for how long rotated ones stay.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Size of one file in bytes; 0 is without limit.
    pub bytes: u64,
    /// Rotated files to keep; 0 keeps all that are young enough.
    pub backups: u64,
    /// Age at which a rotated file goes; zero keeps them.
    pub age: Duration,
}

/// Writes lines; never fails its caller.
pub struct Log {
    path: PathBuf,
    limits: Limits,
    file: Mutex<Option<File>>,
}

impl Log {
    /// Opens `task-executor.log` in `dir`, which is created. Without a writable directory it goes on with
    /// standard error alone and says so there.
    pub fn open(dir: &Path, limits: Limits) -> Self {
        let path = dir.join("task-executor.log");
        let file = std::fs::create_dir_all(dir).and_then(|()| append(&path));
        if let Err(error) = &file {
            eprintln!("task-executor: logging to standard error only: {}: {error}", path.display());
        }
        Self { path, limits, file: Mutex::new(file.ok()) }
    }

    /// Something that an operator of the cluster wants to know.
    pub fn info(&self, message: &str) {
        self.line("INFO", message);
    }

    /// Something that went wrong.
    pub fn error(&self, message: &str) {
        self.line("ERROR", message);
    }

    fn line(&self, level: &str, message: &str) {
        let line = format!("{} {level} {}\n", Timestamp::now(), message.replace('\n', " "));
        // A closed standard error must not end the executor.
        let _ = std::io::stderr().write_all(line.as_bytes());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = file.as_mut() {
            let _ = open.write_all(line.as_bytes());
            let full = self.limits.bytes > 0 && open.metadata().is_ok_and(|data| data.len() >= self.limits.bytes);
            if full {
                *file = self.rotate().ok();
            }
        }
    }

    fn rotate(&self) -> std::io::Result<File> {
        let stamp = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.3f").to_string();
        std::fs::rename(&self.path, self.path.with_file_name(format!("task-executor-{stamp}.log")))?;
        self.drop_old_ones();
        append(&self.path)
    }

    fn drop_old_ones(&self) {
        let Some(entries) = self.path.parent().and_then(|dir| std::fs::read_dir(dir).ok()) else {
            return;
        };
        let mut rotated: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("task-executor-") && name.ends_with(".log")
            })
            .collect();
        rotated.sort_unstable_by(|one, other| other.cmp(one));
        for (position, path) in rotated.iter().enumerate() {
            let surplus = self.limits.backups > 0 && position as u64 >= self.limits.backups;
            if surplus || self.outlived(path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn outlived(&self, path: &Path) -> bool {
        let age = path.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        self.limits.age > Duration::ZERO && age.is_some_and(|age| age > self.limits.age)
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_full_log_is_rotated_and_only_so_many_old_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), Limits { bytes: 1, backups: 2, age: Duration::ZERO });
        for round in 0..5 {
            // Two rotations within a millisecond share a name; the number kept is what matters.
            log.info(&format!("round {round}"));
        }
        let kept = std::fs::read_dir(dir.path()).unwrap().count();
        assert!(kept <= 3, "{kept} files");
    }
}

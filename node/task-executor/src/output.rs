//! Where a task's standard output and standard error go, and how they stay bounded.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["stdout.log", "stderr.log"];

/// The directory of one task: `<data-dir>/<task>/{stdout.log,stderr.log}`.
#[derive(Debug, Clone)]
pub struct TaskDir(PathBuf);

impl TaskDir {
    /// The directory of the task `name`, whose name was checked before.
    pub fn new(data_dir: &Path, name: &str) -> Self {
        Self(data_dir.join(name))
    }

    /// Makes the directory and opens both files anew, for appending: a file can then be cut while it is written to.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub fn open(&self) -> io::Result<(File, File)> {
        std::fs::create_dir_all(&self.0).map_err(|error| named(&self.0, &error))?;
        let [stdout, stderr] = NAMES.map(|name| {
            let path = self.0.join(name);
            let _ = std::fs::remove_file(&path);
            OpenOptions::new().create(true).append(true).open(&path).map_err(|error| named(&path, &error))
        });
        Ok((stdout?, stderr?))
    }

    /// Cuts each file that has grown past `limit` bytes, keeping its last half beside it as `<name>.1`.
    pub fn bound(&self, limit: u64) {
        for name in NAMES {
            let path = self.0.join(name);
            if limit > 0 && path.metadata().is_ok_and(|data| data.len() > limit) {
                // Output is worth less than the Pod's disk: whatever fails, the file is cut.
                let _ = keep_tail(&path, limit / 2);
                let _ = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0));
            }
        }
    }

    /// Removes the directory with all in it.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keep_tail(path: &Path, bytes: u64) -> io::Result<()> {
    let mut from = File::open(path)?;
    let length = from.metadata()?.len();
    from.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut to = File::create(path.with_extension("log.1"))?;
    io::copy(&mut from.take(bytes), &mut to)?;
    to.flush()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn output_is_bounded_and_its_end_is_kept() {
        let data = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(data.path(), "t");
        let (mut stdout, _stderr) = dir.open().unwrap();
        stdout.write_all(b"0123456789").unwrap();
        dir.bound(8);
        assert_eq!(std::fs::read(data.path().join("t/stdout.log.1")).unwrap(), b"6789");
        stdout.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(data.path().join("t/stdout.log")).unwrap(), b"new");
    }
}

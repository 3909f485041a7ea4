//! A log file that is put aside when it is full.
//!
//! Names and limits are those of the operator that this one takes the place
//! of: `controller.log` is written, `controller-2027-01-31T12-00-00.000.log.gz`
//! are the ones before it, the oldest go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;

const MEGABYTE: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3600);
const PACKED: &str = ".gz";
const UNFINISHED: &str = ".tmp";

/// How much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes after which a file is put aside.
    pub size: u64,
    /// Files put aside that are kept; 0 is all of them.
    pub backups: usize,
    /// How long they are kept; zero is for ever.
    pub age: Duration,
    /// Whether they are packed with gzip.
    pub pack: bool,
}

impl Limits {
    /// From megabytes (0 is 100), a number of files and days.
    #[must_use]
    pub fn new(megabytes: u32, backups: u32, days: u32, pack: bool) -> Self {
        let megabytes = if megabytes == 0 { 100 } else { megabytes };
        let backups = usize::try_from(backups).unwrap_or(usize::MAX);
        Self { size: u64::from(megabytes) * MEGABYTE, backups, age: DAY * days, pack }
    }
}

/// The file being written.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    limits: Limits,
    file: File,
    size: u64,
    /// At which size it is put aside. Put off where that failed.
    full: u64,
}

impl RotatingFile {
    /// Opens the file, and its directory if need be; what is in it stays.
    ///
    /// # Errors
    /// When it cannot be opened for writing; the message names it.
    pub fn open(path: &Path, limits: Limits) -> anyhow::Result<Self> {
        let failed = || format!("--log-file-path: {} cannot be written", path.display());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(failed)?;
        }
        let file = append(path).with_context(failed)?;
        let size = file.metadata().with_context(failed)?.len();
        let full = limits.size;
        Ok(Self { path: path.to_owned(), limits, file, size, full })
    }

    /// Puts the file aside and begins a new one. The rest (packing, removing)
    /// is done on a thread of its own.
    fn put_aside(&mut self) -> io::Result<()> {
        let aside = free_name(&self.path);
        fs::rename(&self.path, &aside)?;
        self.file = append(&self.path)?;
        self.size = 0;
        self.full = self.limits.size;
        let (path, limits) = (self.path.clone(), self.limits.clone());
        std::thread::Builder::new().name("log-files".into()).spawn(move || tidy(&path, &limits, SystemTime::now()))?;
        Ok(())
    }
}

impl Write for RotatingFile {
    /// One call is one line: it is never cut in two.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.size > 0 && self.size.saturating_add(length) > self.full && self.put_aside().is_err() {
            // Better a file that is too long than a line lost.
            self.full = self.size.saturating_add(self.limits.size);
        }
        self.file.write_all(line)?;
        self.size = self.size.saturating_add(length);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// `name-<now>.ext`, a millisecond later where that is taken.
fn free_name(path: &Path) -> PathBuf {
    let (stem, end) = parts(path);
    let mut now = Timestamp::now();
    loop {
        let aside = path.with_file_name(format!("{stem}-{}{end}", now.strftime("%Y-%m-%dT%H-%M-%S.%3f")));
        let packed = path.with_file_name(format!("{stem}-{}{end}{PACKED}", now.strftime("%Y-%m-%dT%H-%M-%S.%3f")));
        if !aside.exists() && !packed.exists() {
            return aside;
        }
        now = now.saturating_add(Duration::from_millis(1)).unwrap_or(now);
    }
}

/// `controller` and `.log`.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let end = text(path.extension()).map(|end| format!(".{end}")).unwrap_or_default();
    (text(path.file_stem()).unwrap_or_default(), end)
}

/// Removes what is too many or too old, packs the rest. What fails is tried
/// again with the next file.
fn tidy(path: &Path, limits: &Limits, now: SystemTime) {
    let mut aside = put_aside(path);
    // Their names tell their order.
    aside.sort();
    aside.reverse();
    for (number, file) in aside.into_iter().enumerate() {
        let too_many = limits.backups > 0 && number >= limits.backups;
        let age =
            fs::metadata(&file).and_then(|found| found.modified()).ok().and_then(|at| now.duration_since(at).ok());
        let too_old = !limits.age.is_zero() && age.is_some_and(|age| age > limits.age);
        if too_many || too_old {
            let _ = fs::remove_file(&file);
        } else if limits.pack && !file.to_string_lossy().ends_with(PACKED) {
            let _ = pack(&file);
        }
    }
}

/// Files put aside, and no others: a person's own file beside them stays.
fn put_aside(path: &Path) -> Vec<PathBuf> {
    let (stem, end) = parts(path);
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_ours = |name: &str| {
        let moment = name.strip_prefix(&format!("{stem}-")).map(|name| name.strip_suffix(PACKED).unwrap_or(name));
        let moment = moment.and_then(|name| name.strip_suffix(end.as_str()));
        moment.is_some_and(|moment| {
            moment.len() == "2027-01-31T12-00-00.000".len()
                && moment.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | 'T' | '.'))
        })
    };
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_ours(name)).map(|name| directory.join(name)).collect()
}

/// The packed file appears under its name once it is whole.
fn pack(file: &Path) -> io::Result<()> {
    let with_end = |end: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (packed, unfinished) = (with_end(PACKED), with_end(UNFINISHED));
    let mut gz = GzEncoder::new(BufWriter::new(File::create(&unfinished)?), Compression::default());
    io::copy(&mut File::open(file)?, &mut gz)?;
    gz.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    let written = fs::metadata(file)?.modified()?;
    File::options().append(true).open(&unfinished)?.set_modified(written)?;
    fs::rename(&unfinished, &packed)?;
    fs::remove_file(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn limits(size: u64, backups: usize, pack: bool) -> Limits {
        Limits { size, backups, age: Duration::ZERO, pack }
    }

    fn text(file: &Path) -> String {
        let mut text = String::new();
        if file.to_string_lossy().ends_with(PACKED) {
            GzDecoder::new(File::open(file).unwrap()).read_to_string(&mut text).unwrap();
        } else {
            File::open(file).unwrap().read_to_string(&mut text).unwrap();
        }
        text
    }

    #[test]
    fn no_line_is_lost_or_cut_over_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/controller.log");
        let lines: Vec<String> = (0..40).map(|number| format!("line {number:02}\n")).collect();
        for half in lines.chunks(20) {
            // A restart goes on in the same file.
            let mut file = RotatingFile::open(&path, limits(50, 0, false)).unwrap();
            for line in half {
                file.write_all(line.as_bytes()).unwrap();
            }
        }
        let mut aside = put_aside(&path);
        aside.sort();
        assert_eq!(aside.len(), 6);
        let whole: String = aside.iter().chain([&path]).map(|file| text(file)).collect();
        assert_eq!(whole, lines.concat());
        assert!(aside.iter().all(|file| text(file).len() <= 50));
    }

    #[test]
    fn the_newest_are_kept_packed_and_the_rest_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("controller.log");
        let aside = |day: u32| dir.path().join(format!("controller-2027-01-{day:02}T12-00-00.000.log"));
        for day in 1..=5 {
            fs::write(aside(day), format!("day {day}")).unwrap();
        }
        let own = dir.path().join("controller-notes.log");
        fs::write(&own, "mine").unwrap();
        tidy(&path, &limits(1, 3, true), SystemTime::now());
        let mut left = put_aside(&path);
        left.sort();
        let packed: Vec<PathBuf> = (3..=5).map(|day| PathBuf::from(format!("{}.gz", aside(day).display()))).collect();
        assert_eq!(left, packed);
        assert_eq!(text(&left[0]), "day 3");
        assert!(own.exists());
        let old = Limits { age: DAY, ..limits(1, 3, true) };
        tidy(&path, &old, SystemTime::now() + 2 * DAY);
        assert_eq!(put_aside(&path), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = RotatingFile::open(&dir.path().join("file/controller.log"), limits(1, 1, true)).unwrap_err();
        assert!(error.to_string().contains("file/controller.log cannot be written"), "{error}");
    }
}

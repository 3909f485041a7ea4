//! A file's mode, owner and times, as the SDKs read and write them.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::Failure;
use crate::owner::{self, GROUPS, USERS};

/// One entry of the file system.
#[derive(Debug, Serialize)]
pub struct FileInfo {
    path: String,
    r#type: &'static str,
    size: u64,
    modified_at: Timestamp,
    created_at: Timestamp,
    owner: String,
    group: String,
    /// Decimal digits that look like the octal mode.
    mode: u32,
}

impl FileInfo {
    /// Reads `path`, a link itself and not what it points to.
    ///
    /// # Errors
    /// It is not there, or may not be looked at.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let data = std::fs::symlink_metadata(path).map_err(|error| Failure::io(&shown, &error))?;
        Ok(Self {
            path: shown,
            r#type: kind(&data),
            size: data.len(),
            modified_at: time(data.modified().ok()),
            created_at: time(data.created().or_else(|_| data.modified()).ok()),
            owner: owner::name(USERS, data.uid()),
            group: owner::name(GROUPS, data.gid()),
            mode: shown_mode(data.mode() & 0o7777),
        })
    }
}

fn kind(data: &Metadata) -> &'static str {
    if data.is_symlink() {
        "symlink"
    } else if data.is_dir() {
        "directory"
    } else if data.is_file() {
        "file"
    } else {
        "other"
    }
}

fn time(at: Option<SystemTime>) -> Timestamp {
    at.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn shown_mode(mode: u32) -> u32 {
    format!("{mode:o}").parse().unwrap_or(0)
}

/// Who may do what, as it is asked for. What is absent stays as it is.
#[derive(Debug, Default, Deserialize)]
pub struct Permission {
    owner: Option<String>,
    group: Option<String>,
    /// Decimal digits that look like the octal mode.
    mode: Option<u32>,
}

impl Permission {
    /// Gives `path` this mode and these owners.
    ///
    /// # Errors
    /// A mode that is none, an unknown name, or what the file system says.
    pub fn apply(&self, path: &Path) -> Result<(), Failure> {
        let shown = path.display().to_string();
        let io = |error| Failure::io(&shown, &error);
        let uid = lookup(USERS, self.owner.as_deref())?;
        let gid = lookup(GROUPS, self.group.as_deref())?;
        if uid.is_some() || gid.is_some() {
            std::os::unix::fs::chown(path, uid, gid).map_err(io)?;
        }
        // After the owner: changing that clears the bits for set-user-id.
        if let Some(digits) = self.mode.filter(|digits| *digits > 0) {
            let mode = u32::from_str_radix(&digits.to_string(), 8)
                .map_err(|_| Failure::bad(format!("{shown}: mode {digits} is not one like 755")))?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(io)?;
        }
        Ok(())
    }
}

fn lookup(file: &str, name: Option<&str>) -> Result<Option<u32>, Failure> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    match owner::id(file, name) {
        Some(id) => Ok(Some(id)),
        None => Err(Failure::bad(format!("{name} is not in {file}"))),
    }
}

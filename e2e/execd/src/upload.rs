//! Uploads: a part `metadata` with the path, then a part `file` with the content, any number of pairs.

use std::path::PathBuf;

use axum::extract::Multipart;
use axum::extract::multipart::{Field, MultipartError};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;

use crate::answer::Failure;
use crate::metadata::Permission;

#[derive(Deserialize)]
struct Target {
    path: PathBuf,
    #[serde(flatten)]
    permission: Permission,
}

/// `POST /files/upload`.
pub async fn upload(mut form: Multipart) -> Result<(), Failure> {
    let mut target: Option<Target> = None;
    while let Some(part) = form.next_field().await.map_err(broken)? {
        let name = part.name().map(str::to_owned);
        match (name.as_deref(), target.take()) {
            (Some("metadata"), None) => {
                let text = part.bytes().await.map_err(broken)?;
                target =
                    Some(serde_json::from_slice(&text).map_err(|error| Failure::bad(format!("metadata: {error}")))?);
            }
            (Some("file"), Some(target)) => store(part, &target).await?,
            _ => {
                return Err(Failure::bad("send a part metadata and then a part file, for each file"));
            }
        }
    }
    match target {
        None => Ok(()),
        Some(target) => Err(Failure::bad(format!("{}: the part file is missing", target.path.display()))),
    }
}

async fn store(mut part: Field<'_>, target: &Target) -> Result<(), Failure> {
    let shown = target.path.display().to_string();
    let io = |error| Failure::io(&shown, &error);
    if let Some(parent) = target.path.parent() {
        tokio::fs::create_dir_all(parent).await.map_err(io)?;
    }
    let mut file = tokio::fs::File::create(&target.path).await.map_err(io)?;
    while let Some(chunk) = part.chunk().await.map_err(broken)? {
        file.write_all(&chunk).await.map_err(io)?;
    }
    file.flush().await.map_err(io)?;
    target.permission.apply(&target.path)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn broken(error: MultipartError) -> Failure {
    Failure::bad(format!("the form is broken: {error}"))
}

//! The BatchSandbox template file.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It cannot be read.
    #[error(
        "kubernetes.batchsandbox_template_file: {path}: {source}; put the file there, name another, remove the key, \
         or, outside of the server's image, start with --file-root DIR to look for it under DIR"
    )]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not YAML.
    #[error("kubernetes.batchsandbox_template_file: {path} is not valid YAML: {message}")]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        message: String,
    },
    /// It is no object.
    #[error("kubernetes.batchsandbox_template_file: {path} must hold a YAML object (a BatchSandbox without status)")]
    NotAnObject {
        /// The file.
        path: PathBuf,
    },
}

/// Where a file named in the configuration is, with `--file-root` put in front.
#[must_use]
pub fn under(root: Option<&Path>, path: &Path) -> PathBuf {
    match root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    }
}

/// Reads a template.
///
/// # Errors
/// When the file cannot be read or is no YAML object.
pub fn load(path: &Path) -> Result<Value, TemplateError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| TemplateError::Unreadable { path: path.to_owned(), source })?;
    let value: Value = serde_saphyr::from_str(&text)
        .map_err(|error| TemplateError::NotYaml { path: path.to_owned(), message: error.to_string() })?;
    if value.is_object() { Ok(value) } else { Err(TemplateError::NotAnObject { path: path.to_owned() }) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_template_that_ships_is_one() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("etc/opensandbox/example.batchsandbox-template.yaml");
        let template = load(&shipped).unwrap();
        assert_eq!(template["spec"]["replicas"], 1);
    }

    #[test]
    fn a_missing_template_is_told_with_the_way_out() {
        let error = load(Path::new("/nowhere/t.yaml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/t.yaml") && error.contains("--file-root"), "{error}");
    }

    #[test]
    fn a_file_root_is_put_in_front() {
        assert_eq!(under(Some(Path::new("/r")), Path::new("/etc/a.yaml")), Path::new("/r/etc/a.yaml"));
        assert_eq!(under(None, Path::new("/etc/a.yaml")), Path::new("/etc/a.yaml"));
    }
}

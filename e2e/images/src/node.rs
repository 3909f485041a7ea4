//! The node's own store of images. A tag that is there is not pulled again, so an image that has changed under its
//! tag must be forgotten by the node, or new Pods would run the old one.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Where the whole node's containerd listens; without it there is no node on this machine.
const SOCKET: &str = "/run/containerd/containerd.sock";

/// Removes from the node every image that goes by the name of one of `images` and has another digest than the one
/// given with it. Answers how many. Running containers are not touched.
///
/// # Errors
/// containerd is there and refuses.
pub fn forget_stale(images: &[(&str, String)]) -> Result<usize> {
    if !Path::new(SOCKET).exists() {
        return Ok(0);
    }
    let list = ctr(&["images", "ls"])?;
    let stale: Vec<&str> = list.lines().filter_map(|line| stale(line, images)).collect();
    if !stale.is_empty() {
        ctr(&[&["images", "rm", "--sync"], stale.as_slice()].concat())?;
    }
    Ok(stale.len())
}

/// A line of `ctr images ls` is reference, type, digest, and more.
fn stale<'a>(line: &'a str, images: &[(&str, String)]) -> Option<&'a str> {
    let mut fields = line.split_ascii_whitespace();
    let (reference, digest) = (fields.next()?, fields.nth(1)?);
    let (_, name) = reference.split_once('/')?;
    images.iter().any(|(known, current)| name == *known && digest != current).then_some(reference)
}

fn ctr(arguments: &[&str]) -> Result<String> {
    let output = Command::new("ctr")
        .args(["--address", SOCKET, "--namespace", "k8s.io"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("run ctr: it is missing; install it with: make setup")?;
    if !output.status.success() {
        bail!("ctr {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_content_under_the_same_name_is_forgotten() {
        let images = [("opensandbox/execd:v1", "sha256:new".to_owned())];
        let line = |reference: &str, digest: &str| format!("{reference} application/x {digest} 9 MiB linux/amd64 -");
        assert_eq!(
            stale(&line("any.example/opensandbox/execd:v1", "sha256:old"), &images),
            Some("any.example/opensandbox/execd:v1")
        );
        assert_eq!(stale(&line("any.example/opensandbox/execd:v1", "sha256:new"), &images), None);
        assert_eq!(stale(&line("any.example/opensandbox/execd:v2", "sha256:old"), &images), None);
        assert_eq!(stale("REF TYPE DIGEST SIZE PLATFORMS LABELS", &images), None);
    }
}

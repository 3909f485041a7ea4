//! The two documents of an image: its configuration and its manifest. The same parts give the same bytes.

use serde_json::{Value, json};

use crate::catalogue::Image;
use crate::layer::{Layer, digest_of};

/// Media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A document with the digest that it goes by.
#[derive(Debug)]
pub struct Document {
    /// JSON.
    pub bytes: Vec<u8>,
    /// `sha256:…` of it.
    pub digest: String,
}

impl Document {
    fn of(value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        let digest = digest_of(&bytes);
        Self { bytes, digest }
    }
}

/// How `image` is started, on top of `layers`.
pub fn config(image: &Image, layers: &[Layer]) -> Document {
    let settings = &image.settings;
    let diffs: Vec<&str> = layers.iter().map(|layer| layer.digest.as_str()).collect();
    Document::of(&json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "Entrypoint": settings.entrypoint,
            "Cmd": settings.command,
            "WorkingDir": settings.directory,
            "User": settings.user,
        },
        "rootfs": { "type": "layers", "diff_ids": diffs },
    }))
}

/// What the image consists of.
pub fn manifest(config: &Document, layers: &[Layer]) -> Document {
    let layers: Vec<Value> =
        layers.iter().map(|layer| json!({ "mediaType": LAYER, "digest": layer.digest, "size": layer.size })).collect();
    Document::of(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": { "mediaType": CONFIG, "digest": config.digest, "size": config.bytes.len() },
        "layers": layers,
    }))
}

/// The machine's architecture as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

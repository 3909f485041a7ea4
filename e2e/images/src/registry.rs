//! Pushing to a registry over plain HTTP: only what it lacks.

use std::fmt;

use anyhow::{Context, Result, bail};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use crate::catalogue::Image;
use crate::layer::Layer;
use crate::oci::{self, Document};

/// A registry without credentials.
pub struct Registry {
    host: String,
    client: Client,
}

/// What became of an image.
#[derive(Debug)]
pub struct Pushed {
    /// The registry had another one, or none, under that name.
    pub new: bool,
    /// Of the manifest.
    pub digest: String,
}

impl fmt::Display for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.host)
    }
}

impl Registry {
    /// The one at `host`, `HOST:PORT`.
    pub fn at(host: &str) -> Self {
        Self { host: host.to_owned(), client: Client::new() }
    }

    /// Fails with what to do when nothing answers there.
    ///
    /// # Errors
    /// It does not answer as a registry.
    pub async fn answers(&self) -> Result<()> {
        let hint = || {
            format!("no registry answers at {}: bring the cluster up with make cluster, or give --registry", self.host)
        };
        let answer = self.client.get(self.url("")?).send().await.with_context(hint)?;
        if answer.status() != StatusCode::OK {
            bail!("{} ({})", hint(), answer.status());
        }
        Ok(())
    }

    /// Pushes `image` unless it is there with the same content.
    ///
    /// # Errors
    /// The registry refuses something; its answer is in the message.
    pub async fn push(&self, image: &Image, layers: &[Layer]) -> Result<Pushed> {
        let config = oci::config(image, layers);
        let manifest = oci::manifest(&config, layers);
        let digest = manifest.digest.clone();
        let Some((repository, tag)) = image.name.rsplit_once(':') else { bail!("{} has no tag", image.name) };
        if self.has_manifest(repository, tag, &digest).await? {
            return Ok(Pushed { new: false, digest });
        }
        for layer in layers {
            self.blob(repository, &layer.digest, || {
                std::fs::read(&layer.path).with_context(|| format!("read {}", layer.path.display()))
            })
            .await?;
        }
        self.blob(repository, &config.digest, || Ok(config.bytes.clone())).await?;
        self.put_manifest(repository, tag, manifest).await?;
        Ok(Pushed { new: true, digest })
    }

    async fn has_manifest(&self, repository: &str, tag: &str, digest: &str) -> Result<bool> {
        let url = self.url(&format!("{repository}/manifests/{tag}"))?;
        let answer = self.client.head(url).header(ACCEPT, oci::MANIFEST).send().await?;
        let there = answer.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        Ok(answer.status() == StatusCode::OK && there == Some(digest))
    }

    async fn blob(&self, repository: &str, digest: &str, bytes: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        let url = self.url(&format!("{repository}/blobs/{digest}"))?;
        if self.client.head(url).send().await?.status() == StatusCode::OK {
            return Ok(());
        }
        let begin = self.url(&format!("{repository}/blobs/uploads/"))?;
        let begun = self.client.post(begin.clone()).header("content-length", 0).send().await?;
        let begun = expect(begun, StatusCode::ACCEPTED, "begin an upload").await?;
        let to =
            begun.headers().get(LOCATION).and_then(|value| value.to_str().ok()).context("an upload without place")?;
        // The place may be relative, and may carry a query of its own.
        let mut to = begin.join(to).with_context(|| format!("an upload to {to}"))?;
        to.query_pairs_mut().append_pair("digest", digest);
        let put = self.client.put(to).header(CONTENT_TYPE, "application/octet-stream").body(bytes()?);
        expect(put.send().await?, StatusCode::CREATED, "upload a layer").await?;
        Ok(())
    }

    async fn put_manifest(&self, repository: &str, tag: &str, manifest: Document) -> Result<()> {
        let url = self.url(&format!("{repository}/manifests/{tag}"))?;
        let put = self.client.put(url).header(CONTENT_TYPE, oci::MANIFEST).body(manifest.bytes);
        expect(put.send().await?, StatusCode::CREATED, "put a manifest").await?;
        Ok(())
    }

    fn url(&self, path: &str) -> Result<Url> {
        let text = format!("http://{}/v2/{path}", self.host);
        Url::parse(&text).with_context(|| format!("--registry {}: give HOST:PORT", self.host))
    }
}

async fn expect(answer: Response, wanted: StatusCode, to: &str) -> Result<Response> {
    let status = answer.status();
    if status == wanted {
        return Ok(answer);
    }
    let url = answer.url().clone();
    bail!("cannot {to} at {url} ({status}): {}", answer.text().await.unwrap_or_default().trim())
}

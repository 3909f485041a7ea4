//! What is asked of the server: by curl, and by the unmodified Python SDK.

use std::process::Command;

use anyhow::{Context, Result, bail};
use sandbox_e2e::sdk::Sdk;
use sandbox_e2e::site::{API_KEY, IMAGE};
use serde_json::{Value, json};

use crate::show::{say, shown};

/// A user of the server.
pub struct Client<'a> {
    server: String,
    sdk: &'a Sdk,
}

impl<'a> Client<'a> {
    /// Of the server at this address.
    pub fn new(server: &str, sdk: &'a Sdk) -> Self {
        Self { server: server.to_owned(), sdk }
    }

    /// `POST /v1/sandboxes` on a Pool; the id of the sandbox, which is Running by then.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn create(&self, pool: &str) -> Result<String> {
        let body = json!({
            "image": { "uri": IMAGE },
            "entrypoint": ["tail", "-f", "/dev/null"],
            "timeout": 600,
            "resourceLimits": { "cpu": "100m", "memory": "256Mi" },
            "extensions": { "poolRef": pool },
        });
        let answer: Value = serde_json::from_str(&self.curl("POST", "/v1/sandboxes", Some(&body))?)?;
        let id = answer["id"].as_str().context("the server answered no id")?.to_owned();
        let state = answer["status"]["state"].as_str().unwrap_or("unknown");
        if state != "Running" {
            bail!("sandbox {id} is {state} and not Running: {answer}");
        }
        Ok(id)
    }

    /// `DELETE /v1/sandboxes/{id}`.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn delete(&self, id: &str) -> Result<()> {
        self.curl("DELETE", &format!("/v1/sandboxes/{id}"), None)?;
        Ok(())
    }

    /// `echo` in a sandbox, by the SDK.
    ///
    /// # Errors
    /// When the SDK fails, or the sandbox answers something else.
    pub fn echo(&self, id: &str, text: &str) -> Result<()> {
        let mut script = self.sdk.script("echo.py", &self.server, API_KEY);
        let said = shown(&format!("python e2e/sdk/echo.py {id} '{text}'"), script.args([id, text]))?;
        heard(&said, text)
    }

    /// A sandbox from a Pool and `echo` in it, both by the SDK; its id.
    ///
    /// # Errors
    /// When the SDK fails, or the sandbox answers something else.
    pub fn create_and_echo(&self, pool: &str, text: &str) -> Result<String> {
        let mut script = self.sdk.script("hello.py", &self.server, API_KEY);
        let said = shown(&format!("python e2e/sdk/hello.py {pool} IMAGE '{text}'"), script.args([pool, IMAGE, text]))?;
        let (id, rest) = said.split_once('\n').context("the script printed no id")?;
        heard(rest, text)?;
        Ok(id.trim().to_owned())
    }

    fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> Result<String> {
        let url = format!("http://{}{path}", self.server);
        let mut command = Command::new("curl");
        // The body of a refusal says why; the code comes behind it.
        command.args([
            "--silent",
            "--show-error",
            "--max-time",
            "90",
            "--write-out",
            "\n%{http_code}",
            "-X",
            method,
            &url,
        ]);
        command.args(["-H", &format!("OPEN-SANDBOX-API-KEY: {API_KEY}")]);
        let mut typed = format!("curl -X {method} -H 'OPEN-SANDBOX-API-KEY: {API_KEY}' {url}");
        if let Some(body) = body {
            command.args(["-H", "Content-Type: application/json", "-d", &body.to_string()]);
            typed.push_str(&format!(" \\\n       -H 'Content-Type: application/json' -d '{body}'"));
        }
        say(&format!("   $ {typed}"));
        let output = command.output().context("run curl: apt-get install curl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (answer, code) = text.rsplit_once('\n').unwrap_or(("", &text));
        if !output.status.success() {
            bail!("{method} {url}: {}", String::from_utf8_lossy(&output.stderr));
        }
        say(&format!("   HTTP {code} {answer}"));
        if !code.starts_with('2') {
            bail!("{method} {path} was answered with {code}: {answer}");
        }
        Ok(answer.to_owned())
    }
}

fn heard(said: &str, text: &str) -> Result<()> {
    if said.trim() != text {
        bail!("the sandbox said {said:?} and not {text:?}");
    }
    Ok(())
}

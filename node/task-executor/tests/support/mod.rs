//! A real executor on a free port of loopback, and a client that speaks its protocol as the operator does.
#![allow(clippy::unwrap_used, clippy::panic, dead_code, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

pub struct Executor {
    child: Child,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
}

pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Executor {
    pub fn start(extra: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_task-executor"))
            .arg("-listen-addr=127.0.0.1:0")
            .arg(format!("-data-dir={}", dir.path().join("tasks").display()))
            .arg(format!("--log-dir={}", dir.path().join("log").display()))
            .args(extra)
            .env("FROM_THE_CONTAINER", "inherited")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.parse().unwrap();
            }
        };
        // Its log must never fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, dir }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for its end and answers its exit code.
    pub fn ends_within(&mut self, limit: Duration) -> Option<i32> {
        until(limit, "the executor ends", || self.child.try_wait().unwrap()).code()
    }

    pub fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        parse(&answer)
    }

    pub fn set(&self, tasks: Value) -> Answer {
        self.call("POST", "/setTasks", &tasks.to_string())
    }

    pub fn tasks(&self) -> Vec<Value> {
        let answer = self.call("GET", "/getTasks", "");
        assert_eq!(answer.status, 200);
        answer.body.as_array().unwrap().clone()
    }

    pub fn terminated(&self, name: &str) -> Value {
        until(Duration::from_secs(20), "the task ends", || {
            let task = self.call("GET", &format!("/tasks/{name}"), "");
            task.body.pointer("/processStatus/terminated").cloned()
        })
    }

    pub fn gone(&self, name: &str) {
        until(Duration::from_secs(20), "the task is gone", || {
            (self.call("GET", &format!("/tasks/{name}"), "").status == 404).then_some(())
        });
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn parse(answer: &str) -> Answer {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() };
    Answer { status, body }
}

/// A task that runs `script` in a shell.
pub fn shell(name: &str, script: &str) -> Value {
    json!({ "name": name, "process": { "command": ["/bin/sh", "-c", script] } })
}

/// Looks again and again until `see` answers; fails with `what` after `limit`.
pub fn until<T>(limit: Duration, what: &str, mut see: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = see() {
            return seen;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} until {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The pid that a task wrote to `path`, once it is there.
pub fn pid_in(path: &Path) -> i32 {
    until(Duration::from_secs(10), "the pid is written", || {
        std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok()
    })
}

/// Whether a process exists and is no zombie.
pub fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != "Z")
}

/// Its one-letter state; none when there is no such process.
pub fn state(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().next()?.to_owned())
}

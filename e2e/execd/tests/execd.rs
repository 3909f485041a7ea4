//! What the SDKs are promised, over real HTTP on a real execd.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

struct Execd {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
    client: reqwest::Client,
}

impl Execd {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_execd"));
        command.args(["--listen", "127.0.0.1:0"]).env("EXECD_ENVS", dir.path().join("envs"));
        Self::of(command, dir)
    }

    fn of(mut command: Command, dir: tempfile::TempDir) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            if let Some((_, address)) = lines.next().unwrap().unwrap().split_once("listening on ") {
                break format!("http://{address}");
            }
        };
        Self { child, address, dir, client: reqwest::Client::new() }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    async fn events(&self, route: &str, body: Value) -> Vec<Value> {
        let answer = self.client.post(format!("{}{route}", self.address)).json(&body).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.text().await.unwrap();
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    async fn run(&self, script: &str) -> Vec<Value> {
        self.events("/command", json!({ "command": script })).await
    }

    async fn get(&self, route: &str, query: &[(&str, &str)]) -> reqwest::Response {
        self.client.get(url(&self.address, route, query)).send().await.unwrap()
    }

    async fn delete(&self, route: &str, query: &[(&str, &str)]) -> u16 {
        self.client.delete(url(&self.address, route, query)).send().await.unwrap().status().as_u16()
    }

    async fn post(&self, route: &str, body: Value) -> reqwest::Response {
        self.client.post(format!("{}{route}", self.address)).json(&body).send().await.unwrap()
    }

    async fn upload(&self, path: &str, content: &str) {
        let metadata = json!({ "path": path, "mode": 640, "owner": null, "group": null }).to_string();
        let form = reqwest::multipart::Form::new()
            .part("metadata", reqwest::multipart::Part::text(metadata).file_name("metadata"))
            .part("file", reqwest::multipart::Part::text(content.to_owned()).file_name("f"));
        let answer = self.client.post(format!("{}/files/upload", self.address)).multipart(form).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }
}

impl Drop for Execd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(address: &str, route: &str, query: &[(&str, &str)]) -> String {
    let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{address}{route}?{}", query.join("&"))
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a str> {
    events.iter().filter(|event| event["type"] == kind).map(|event| event["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_command_tells_its_output_line_by_line_and_its_end() {
    let execd = Execd::start();
    assert_eq!(execd.get("/ping", &[]).await.status(), 200);
    let events = execd.run("echo one; echo two >&2; printf three").await;
    assert_eq!(events[0]["type"], "init");
    assert_eq!(of(&events, "stdout"), ["one", "three"]);
    assert_eq!(of(&events, "stderr"), ["two"]);
    assert_eq!(events.last().unwrap()["type"], "execution_complete");
    assert!(events.iter().all(|event| event["timestamp"].is_i64()));
}

#[tokio::test]
async fn a_failed_command_tells_its_exit_code_and_no_completion() {
    let execd = Execd::start();
    let events = execd.run("exit 7").await;
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["evalue"]), (&json!("error"), &json!("7")));
    let limited = execd.events("/command", json!({ "argv": ["sleep", "1000"], "timeout": 50 })).await;
    assert_eq!(limited.last().unwrap()["error"]["evalue"], "137");
    assert_eq!(execd.post("/command", json!({ "command": " " })).await.status(), 400);
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_not_waited_for() {
    let execd = Execd::start();
    let start = Instant::now();
    let events = execd.run("sleep 1000 & echo $!").await;
    assert!(start.elapsed() < Duration::from_secs(20));
    let left = of(&events, "stdout")[0].to_owned();
    assert_eq!(execd.run(&format!("kill {left}")).await.last().unwrap()["type"], "execution_complete");
}

#[tokio::test]
async fn variables_come_from_the_env_file_and_the_request_over_it() {
    let execd = Execd::start();
    execd.run("printf '%s\\n' \"A='from file'\" \"B=file\" >> \"$EXECD_ENVS\"").await;
    let body = json!({ "command": "echo $A $B", "envs": { "B": "request" }, "cwd": "/" });
    assert_eq!(of(&execd.events("/command", body).await, "stdout"), ["from file request"]);
}

#[tokio::test]
async fn a_background_command_goes_on_and_can_be_read_and_interrupted() {
    let execd = Execd::start();
    let body = json!({ "command": "echo first; exec sleep 1000", "background": true });
    let events = execd.events("/command", body).await;
    let id = events[0]["text"].as_str().unwrap().to_owned();
    let logs = format!("/command/{id}/logs");
    let cursor = loop {
        let answer = execd.get(&logs, &[]).await;
        let cursor = answer.headers()["EXECD-COMMANDS-TAIL-CURSOR"].to_str().unwrap().to_owned();
        if answer.text().await.unwrap() == "first\n" {
            break cursor;
        }
    };
    assert_eq!(execd.get(&logs, &[("cursor", &cursor)]).await.text().await.unwrap(), "");
    let status = format!("/command/status/{id}");
    let running: Value = execd.get(&status, &[]).await.json().await.unwrap();
    assert_eq!((&running["running"], &running["exit_code"]), (&json!(true), &json!(null)));
    assert_eq!(execd.delete("/command", &[("id", &id)]).await, 200);
    let ended = loop {
        let status: Value = execd.get(&status, &[]).await.json().await.unwrap();
        if status["running"] == false {
            break status;
        }
    };
    assert_eq!(ended["exit_code"], 137);
    assert_eq!(execd.get("/command/status/none", &[]).await.status(), 404);
}

#[tokio::test]
async fn a_session_keeps_its_directory_and_variables() {
    let execd = Execd::start();
    let session: Value = execd.post("/session", json!({ "cwd": "/tmp" })).await.json().await.unwrap();
    let id = session["session_id"].as_str().unwrap();
    let route = format!("/session/{id}/run");
    let odd = execd.path("a b'c");
    let run = |script: String| execd.events(&route, json!({ "command": script }));
    assert_eq!(of(&run("pwd".into()).await, "stdout"), ["/tmp"]);
    run(format!("mkdir -p \"{odd}\"; cd \"{odd}\"; export KEPT='x y'; exit 0")).await;
    assert_eq!(of(&run("pwd; echo $KEPT".into()).await, "stdout"), [odd.as_str(), "x y"]);
    assert_eq!(run("exit 3".into()).await.last().unwrap()["error"]["evalue"], "3");
    assert_eq!(execd.delete(&format!("/session/{id}"), &[]).await, 200);
    assert_eq!(execd.delete(&format!("/session/{id}"), &[]).await, 404);
}

#[tokio::test]
async fn files_are_written_read_described_moved_changed_and_removed() {
    let execd = Execd::start();
    let (one, two) = (execd.path("d/one.txt"), execd.path("e/two.txt"));
    execd.upload(&one, "line 1\nline 2\nline 3\n").await;
    let read = |query: Vec<(&'static str, String)>| {
        let query: Vec<(String, String)> = query.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let execd = &execd;
        async move {
            let pairs: Vec<(&str, &str)> = query.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            execd.get("/files/download", &pairs).await.text().await.unwrap()
        }
    };
    assert_eq!(read(vec![("path", one.clone())]).await, "line 1\nline 2\nline 3\n");
    assert_eq!(read(vec![("path", one.clone()), ("offset", "2".into()), ("limit", "1".into())]).await, "line 2\n");
    let part = execd.client.get(url(&execd.address, "/files/download", &[("path", &one)]));
    let part = part.header("Range", "bytes=0-3").send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.text().await.unwrap().as_str()), (206, "line"));

    let info: Value = execd.get("/files/info", &[("path", &one)]).await.json().await.unwrap();
    assert_eq!(
        (&info[&one]["size"], &info[&one]["mode"], &info[&one]["type"]),
        (&json!(21), &json!(640), &json!("file"))
    );
    assert_eq!(execd.get("/files/info", &[("path", &two)]).await.status(), 404);

    assert_eq!(execd.post("/files/mv", json!([{ "src": one, "dest": two }])).await.status(), 200);
    let replaced: Value = execd
        .post("/files/replace", json!({ two.clone(): { "old": "line", "new": "row" } }))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(replaced[&two]["replacedCount"], 3);
    assert_eq!(execd.post("/files/permissions", json!({ two.clone(): { "mode": 755 } })).await.status(), 200);

    let found: Value =
        execd.get("/files/search", &[("path", &execd.path("")), ("pattern", "*.txt")]).await.json().await.unwrap();
    assert_eq!((found.as_array().unwrap().len(), &found[0]["path"], &found[0]["mode"]), (1, &json!(two), &json!(755)));
    assert_eq!(execd.delete("/files", &[("path", &two)]).await, 200);
    assert_eq!(execd.get("/files/download", &[("path", &two)]).await.status(), 404);
}

#[tokio::test]
async fn directories_are_made_listed_and_removed() {
    let execd = Execd::start();
    let dir = execd.path("x/y");
    assert_eq!(execd.post("/directories", json!({ dir.clone(): { "mode": 750 } })).await.status(), 200);
    let list = |depth: &'static str| {
        let (execd, root) = (&execd, execd.path(""));
        async move {
            let all: Value =
                execd.get("/directories/list", &[("path", &root), ("depth", depth)]).await.json().await.unwrap();
            all.as_array().unwrap().len()
        }
    };
    assert_eq!((list("1").await, list("2").await), (1, 2));
    assert_eq!(execd.delete("/directories", &[("path", &execd.path("x"))]).await, 200);
    assert_eq!(list("1").await, 0);
}

#[tokio::test]
async fn a_machine_tells_its_size() {
    let execd = Execd::start();
    let metrics: Value = execd.get("/metrics", &[]).await.json().await.unwrap();
    assert!(metrics["cpu_count"].as_f64().unwrap() >= 1.0 && metrics["mem_total_mib"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn bootstrap_starts_execd_beside_the_entry_point_and_as_init_in_front_of_it() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/image/bootstrap.sh");
    let dir = tempfile::tempdir().unwrap();
    let wrapper = dir.path().join("execd");
    let text = format!("#!/bin/sh\nexec {} --listen 127.0.0.1:0 \"$@\"\n", env!("CARGO_BIN_EXE_execd"));
    std::fs::write(&wrapper, text).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();

    let mut command = Command::new(script);
    command.args(["sh", "-c", "echo \"$0|$1\" >&2; exec sleep 1000", "a b", "it's"]);
    command.env("EXECD", &wrapper).env("EXECD_ENVS", dir.path().join(".env"));
    let beside = Execd::of(command, tempfile::tempdir().unwrap());
    assert_eq!(beside.get("/ping", &[]).await.status(), 200);
    assert!(dir.path().join(".env").exists());
    let command_line = format!("/proc/{}/cmdline", beside.child.id());
    let start = Instant::now();
    while !std::fs::read_to_string(&command_line).unwrap().starts_with("sleep\0") {
        assert!(start.elapsed() < Duration::from_secs(10), "the entry point takes the place of the script");
        tokio::task::yield_now().await;
    }
    let execd = of(&beside.run("echo $PPID").await, "stdout")[0].to_owned();
    assert!(Command::new("kill").arg(execd).status().unwrap().success());

    let mut command = Command::new(script);
    command.args(["sh", "-c", "exit 5"]).env("EXECD", &wrapper).env("EXECD_INIT", "1");
    command.env("EXECD_ENVS", dir.path().join(".env"));
    assert_eq!(command.status().unwrap().code(), Some(5));
}

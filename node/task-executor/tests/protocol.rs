//! The wire, byte by byte where it matters.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use support::{Executor, parse, shell};

fn raw(executor: &Executor, request: &str) -> support::Answer {
    let mut stream = TcpStream::connect(executor.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    parse(&answer)
}

#[test]
fn every_route_of_the_contract_answers_as_it_says() {
    let executor = Executor::start(&[]);
    let health = executor.call("GET", "/health", "");
    assert_eq!((health.status, health.body), (200, json!({ "status": "healthy" })));
    assert_eq!(executor.call("GET", "/getTasks", "").body, json!([]));
    let created = executor.call("POST", "/tasks", &shell("t", "exec sleep 1000").to_string());
    assert_eq!((created.status, &created.body["name"]), (201, &json!("t")));
    assert_eq!(executor.call("GET", "/tasks/t", "").status, 200);
    let missing = executor.call("GET", "/tasks/u", "");
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!("Not Found")));
    assert_eq!(executor.call("POST", "/tasks", &shell("t", "true").to_string()).status, 500);
    assert_eq!(executor.call("POST", "/tasks", r#"{"process":{}}"#).status, 400);
    let bad = executor.call("POST", "/setTasks", "{");
    assert_eq!((bad.status, &bad.body["code"]), (400, &json!("Bad Request")));
    assert_eq!(executor.call("PUT", "/setTasks", "").status, 405);
    assert_eq!(executor.call("GET", "/elsewhere?x=1", "").status, 404);
}

#[test]
fn a_task_without_a_name_is_ignored_and_one_without_a_process_refused() {
    let executor = Executor::start(&[]);
    let answer = executor.set(json!([{ "process": { "command": ["true"] } }]));
    assert_eq!((answer.status, answer.body), (200, json!([])));
    let answer = executor.set(json!([{ "name": "c", "podTemplateSpec": {} }]));
    assert_eq!(answer.status, 500);
    assert!(answer.body["message"].as_str().unwrap().contains("process is missing"));
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let executor = Executor::start(&[]);
    let mut stream = TcpStream::connect(executor.address).unwrap();
    let get = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(format!("{get}{get}").as_bytes()).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
}

#[test]
fn a_chunked_body_is_read() {
    let executor = Executor::start(&[]);
    let head = "POST /setTasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = raw(&executor, &format!("{head}1\r\n[\r\n1;a=b\r\n]\r\n0\r\nA: b\r\n\r\n"));
    assert_eq!((answer.status, answer.body), (200, json!([])));
    assert_eq!(raw(&executor, &format!("{head}x\r\n")).status, 400);
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    let executor = Executor::start(&[]);
    assert_eq!(raw(&executor, "nonsense\r\n\r\n").status, 400);
    let both = "POST /setTasks HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(raw(&executor, both).status, 400);
    assert_eq!(raw(&executor, "POST /setTasks HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n").status, 413);
    assert_eq!(executor.call("GET", "/health", "").status, 200);
}

#[test]
fn a_command_line_with_a_mistake_says_which_flag() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_task-executor")).arg("-listen-adr=x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("-listen-adr"));
}

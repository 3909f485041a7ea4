//! What a task is promised, on real processes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use support::{Executor, lives, pid_in, shell, state, until};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_task_is_started_once_however_often_it_is_posted() {
    let executor = Executor::start(&[]);
    let starts = executor.file("starts");
    let task = shell("bs-0", &format!("echo started >> {}; exec sleep 1000", starts.display()));
    for _ in 0..20 {
        let answer = executor.set(json!([task]));
        assert_eq!(answer.status, 200);
        assert!(answer.body[0]["processStatus"]["running"]["startedAt"].is_string(), "{}", answer.body);
    }
    let text = until(SOON, "it wrote", || std::fs::read_to_string(&starts).ok().filter(|text| !text.is_empty()));
    assert_eq!(text, "started\n");
    assert_eq!(executor.tasks().len(), 1);
}

#[test]
fn a_task_gets_its_command_environment_and_directory() {
    let executor = Executor::start(&[]);
    let script = r#"printf '%s|%s|%s|%s' "$0" "$A" "$FROM_THE_CONTAINER" "$(pwd)""#;
    let process = json!({
        "command": ["/bin/sh", "-c"], "args": [script, "it's \"quoted\""], "workingDir": "/usr",
        "env": [{"name": "A", "value": "x  y"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}],
    });
    assert_eq!(executor.set(json!([{ "name": "t", "process": process }])).status, 200);
    assert_eq!(executor.terminated("t")["exitCode"], 0);
    let output = std::fs::read_to_string(executor.file("tasks/t/stdout.log")).unwrap();
    assert_eq!(output, "it's \"quoted\"|x  y|inherited|/usr");
}

#[test]
fn an_exit_code_and_a_signal_are_reported() {
    let executor = Executor::start(&[]);
    executor.set(json!([shell("code", "exit 7")]));
    let code = executor.terminated("code");
    assert_eq!((&code["exitCode"], &code["reason"], &code["signal"]), (&json!(7), &json!("Error"), &json!(null)));
    executor.set(json!([shell("signal", "kill -9 $$")]));
    let signal = executor.terminated("signal");
    assert_eq!((&signal["exitCode"], &signal["signal"]), (&json!(137), &json!(9)));
    executor.set(json!([shell("fine", "true")]));
    assert_eq!(executor.terminated("fine")["reason"], "Completed");
    assert_eq!(executor.tasks().len(), 1, "what is not wanted any more is gone");
}

#[test]
fn a_stopped_task_takes_its_whole_process_group_with_it() {
    // A grace that the test would not outlive: SIGTERM alone must do.
    let executor = Executor::start(&["-stop-grace-seconds=1000"]);
    let (leader, child) = (executor.file("leader"), executor.file("child"));
    let script = format!("echo $$ > {}; sleep 1000 & echo $! > {}; wait", leader.display(), child.display());
    executor.set(json!([shell("t", &script)]));
    let pids = [pid_in(&leader), pid_in(&child)];
    assert!(pids.iter().all(|pid| lives(*pid)));
    assert_eq!(executor.set(json!([])).status, 200);
    executor.gone("t");
    assert!(!pids.iter().any(|pid| lives(*pid)));
}

#[test]
fn a_daemon_that_left_its_group_does_not_outlive_its_task() {
    let executor = Executor::start(&["-stop-grace-seconds=1000"]);
    let daemon = executor.file("daemon");
    let script = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' & exit 0", daemon.display());
    executor.set(json!([shell("t", &script)]));
    assert_eq!(executor.terminated("t")["exitCode"], 0);
    let daemon = pid_in(&daemon);
    assert!(lives(daemon), "the task's end alone ends nothing: bootstrap scripts put execd in the background");
    executor.set(json!(null));
    executor.gone("t");
    assert!(!lives(daemon));
}

#[test]
fn a_task_that_ignores_sigterm_is_killed_after_the_grace() {
    let executor = Executor::start(&["-stop-grace-seconds=1"]);
    let ready = executor.file("ready");
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1000; done", ready.display());
    executor.set(json!([shell("t", &script)]));
    let pid = pid_in(&ready);
    assert_eq!(executor.call("DELETE", "/tasks/t", "").status, 204);
    let task = executor.call("GET", "/tasks/t", "").body;
    assert!(task["deletionTimestamp"].is_string() && task["processStatus"]["running"].is_object(), "{task}");
    executor.gone("t");
    assert!(!lives(pid));
    assert_eq!(executor.call("DELETE", "/tasks/t", "").status, 204, "also when it is absent");
}

#[test]
fn the_next_task_waits_until_the_former_one_is_gone() {
    let executor = Executor::start(&["-stop-grace-seconds=1"]);
    let (ready, old) = (executor.file("ready"), executor.file("old"));
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do echo x > {}; sleep 0.01; done",
        ready.display(),
        old.display()
    );
    executor.set(json!([shell("former", &script)]));
    let former = pid_in(&ready);
    let answer = executor.set(json!([shell("next", &format!("kill -0 {former} && exit 1; exit 0"))]));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body[0]["name"], "next", "the one that stays comes first: the operator reads that one");
    assert!(answer.body[0]["processStatus"]["waiting"].is_object(), "{}", answer.body);
    assert_eq!(executor.terminated("next")["exitCode"], 0, "the former one was gone when it started");
}

#[test]
fn a_task_is_ended_at_its_time_limit() {
    let executor = Executor::start(&["-stop-grace-seconds=1"]);
    let mut task = shell("t", "trap 'exit 0' TERM; while :; do sleep 0.01; done");
    task["process"]["timeoutSeconds"] = json!(1);
    executor.set(json!([task]));
    let end = executor.terminated("t");
    assert_eq!((&end["exitCode"], &end["reason"]), (&json!(137), &json!("TaskTimeout")));
    let message = end["message"].as_str().unwrap();
    assert!(message.contains("timeoutSeconds of 1"), "{message}");
}

#[test]
fn zombies_are_reaped() {
    let executor = Executor::start(&[]);
    let orphan = executor.file("orphan");
    // The middle shell ends at once, so its child has no parent but the executor.
    let script = format!("sh -c 'sh -c \"echo \\$\\$ > {}; exec sleep 0.05\" &'; exec sleep 1000", orphan.display());
    executor.set(json!([shell("t", &script)]));
    let orphan = pid_in(&orphan);
    until(SOON, "the orphan is reaped", || state(orphan).is_none().then_some(()));
}

#[test]
fn a_program_that_is_missing_is_named_and_can_be_tried_again() {
    let executor = Executor::start(&[]);
    let program = executor.file("program");
    let task = json!([{ "name": "t", "process": { "command": [program] } }]);
    let answer = executor.set(task.clone());
    assert_eq!((answer.status, &answer.body["code"]), (500, &json!("Internal Server Error")));
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains("\"t\"") && message.contains(program.to_str().unwrap()), "{message}");
    assert!(executor.tasks().is_empty());
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    assert_eq!(executor.set(task).status, 200);
    assert_eq!(executor.terminated("t")["exitCode"], 0);
}

#[test]
fn only_one_task_is_active_and_the_others_are_still_applied() {
    let executor = Executor::start(&[]);
    let answer = executor.set(json!([shell("a", "exec sleep 1000"), shell("b", "exec sleep 1000")]));
    assert_eq!(answer.status, 500);
    assert!(answer.body["message"].as_str().unwrap().contains("one at a time"));
    assert_eq!(executor.tasks().len(), 1);
    let created = executor.call("POST", "/tasks", &shell("c", "true").to_string());
    assert_eq!(created.status, 500);
}

#[test]
fn at_the_pods_end_the_task_is_asked_then_killed_and_the_executor_leaves() {
    let mut executor = Executor::start(&["-stop-grace-seconds=1"]);
    let (ready, asked) = (executor.file("ready"), executor.file("asked"));
    let script = format!(
        "trap 'echo $$ > {}' TERM; echo $$ > {}; while :; do sleep 0.01; done",
        asked.display(),
        ready.display()
    );
    executor.set(json!([shell("t", &script)]));
    let pid = pid_in(&ready);
    executor.signal(Signal::SIGTERM);
    assert_eq!(executor.ends_within(SOON), Some(0));
    assert_eq!(pid_in(&asked), pid);
    assert!(!lives(pid));
}

#[test]
fn without_tasks_it_leaves_at_once_when_the_pod_ends() {
    let mut executor = Executor::start(&[]);
    executor.signal(Signal::SIGTERM);
    assert_eq!(executor.ends_within(Duration::from_secs(2)), Some(0));
}

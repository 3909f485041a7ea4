//! Commands: started in a group of their own, their output line by line, their end.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// How long after a command's end its pipes are read when something else still holds them open.
const DRAIN: Duration = Duration::from_millis(50);

/// What to run.
#[derive(Debug, Default)]
pub struct Order {
    /// Program and arguments, none empty.
    pub argv: Vec<String>,
    /// What `status` shows.
    pub shown: String,
    /// Where; execd's own directory without it.
    pub cwd: Option<String>,
    /// Over execd's own variables.
    pub env: BTreeMap<String, String>,
    /// Killed after this.
    pub limit: Option<Duration>,
    /// As this user.
    pub uid: Option<u32>,
    /// As this group.
    pub gid: Option<u32>,
}

/// What a command tells.
#[derive(Debug)]
pub enum Event {
    /// A line of its standard output.
    Stdout(String),
    /// A line of its standard error.
    Stderr(String),
    /// Its end; nothing follows.
    Ended(i32),
}

/// What is known of one command.
#[derive(Debug, Clone)]
pub struct Record {
    /// As it was asked for.
    pub shown: String,
    /// Its group while it runs.
    group: Option<Pid>,
    /// 128 + signal for one that was killed.
    pub exit_code: Option<i32>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Every line of both outputs, in order of arrival; kept of background commands only.
    pub lines: Vec<String>,
}

/// All commands since the start, by id.
#[derive(Default)]
pub struct Commands(Mutex<HashMap<String, Record>>);

impl Commands {
    /// One command as it is now.
    pub fn get(&self, id: &str) -> Option<Record> {
        self.with(|all| all.get(id).cloned())
    }

    /// Kills the command's whole group; false when there is none such that runs.
    pub fn interrupt(&self, id: &str) -> bool {
        let group = self.get(id).and_then(|record| record.group);
        group.is_some_and(|group| killpg(group, Signal::SIGKILL).is_ok())
    }

    /// Starts `order` and answers its id and what it tells. Unless `keep`, the command is killed when the receiver
    /// is dropped; with it the lines are recorded.
    ///
    /// # Errors
    /// What could not be started, for a person.
    pub fn start(self: &Arc<Self>, order: Order, keep: bool) -> Result<(String, mpsc::Receiver<Event>), String> {
        let child = spawn(&order)?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let group = child.id().map(|pid| Pid::from_raw(pid.cast_signed()));
        let record = Record {
            shown: order.shown,
            group,
            exit_code: None,
            started_at: Timestamp::now(),
            finished_at: None,
            lines: Vec::new(),
        };
        self.with(|all| all.insert(id.clone(), record));
        let (events, receiver) = mpsc::channel(256);
        let follow = Follow { commands: Arc::clone(self), id: id.clone(), group, events, keep };
        tokio::spawn(follow.run(child, order.limit));
        Ok((id, receiver))
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Record>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn spawn(order: &Order) -> Result<Child, String> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(&order.env).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    if let Some(directory) = &order.cwd {
        if !std::path::Path::new(directory).is_dir() {
            return Err(format!("cwd {directory} is not a directory"));
        }
        command.current_dir(directory);
    }
    if let Some(gid) = order.gid {
        command.gid(gid);
    }
    if let Some(uid) = order.uid {
        command.uid(uid);
    }
    command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))
}

struct Follow {
    commands: Arc<Commands>,
    id: String,
    group: Option<Pid>,
    events: mpsc::Sender<Event>,
    keep: bool,
}

impl Follow {
    async fn run(self, mut child: Child, limit: Option<Duration>) {
        let (lines, mut incoming) = mpsc::channel(256);
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(tokio::spawn(read(stdout, lines.clone(), Event::Stdout)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(tokio::spawn(read(stderr, lines.clone(), Event::Stderr)));
        }
        drop(lines);
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut exit = None;
        loop {
            // Everything the command wrote lies in its pipes when it has ended; only what it left behind may hold
            // them open, and that is not waited for.
            let next = match exit {
                None => tokio::select! {
                    biased;
                    next = incoming.recv() => next,
                    () = self.abandoned() => { self.kill(); None }
                    status = wait(&mut child, deadline, &self) => { exit = Some(status); continue }
                },
                Some(_) => timeout(DRAIN, incoming.recv()).await.unwrap_or(None),
            };
            match next {
                Some(event) => self.tell(event).await,
                None => break,
            }
        }
        let code = match exit {
            Some(code) => code,
            None => wait(&mut child, deadline, &self).await,
        };
        self.ended(code);
        let _ = self.events.send(Event::Ended(code)).await;
        // Whoever listens waits for the last sender to go.
        drop(self.events);
        // What the command left behind may go on writing; it is read and dropped, so that it does not block.
        while incoming.recv().await.is_some() {}
        for reader in readers {
            let _ = reader.await;
        }
    }

    /// Waits until nobody listens to a command that is not to be kept.
    async fn abandoned(&self) {
        if self.keep {
            return std::future::pending().await;
        }
        self.events.closed().await;
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    async fn tell(&self, event: Event) {
        if self.keep {
            let line = match &event {
                Event::Stdout(line) | Event::Stderr(line) => line.clone(),
                Event::Ended(_) => return,
            };
            self.commands.with(|all| {
                if let Some(record) = all.get_mut(&self.id) {
                    record.lines.push(line);
                }
            });
        } else {
            let _ = self.events.send(event).await;
        }
    }

    fn ended(&self, code: i32) {
        self.commands.with(|all| {
            if let Some(record) = all.get_mut(&self.id) {
                record.group = None;
                record.exit_code = Some(code);
                record.finished_at = Some(Timestamp::now());
            }
        });
    }
}

async fn wait(child: &mut Child, deadline: Option<Instant>, follow: &Follow) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    if let Some(deadline) = deadline
        && timeout_at(deadline, child.wait()).await.is_err()
    {
        follow.kill();
    }
    match child.wait().await {
        Ok(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1),
        Err(_) => -1,
    }
}

async fn read(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Event>, event: fn(String) -> Event) {
    let mut pending = Vec::new();
    let mut chunk = [0; 8192];
    while let Ok(read) = from.read(&mut chunk).await {
        pending.extend_from_slice(&chunk[..read]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = pending.drain(..=end).collect();
            line.pop();
            let _ = to.send(event(String::from_utf8_lossy(&line).into_owned())).await;
        }
        if read == 0 {
            break;
        }
    }
    if !pending.is_empty() {
        let _ = to.send(event(String::from_utf8_lossy(&pending).into_owned())).await;
    }
}

//! What each path does, `spec/controllers.md` §3.8.5.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{Request, Response};
use crate::supervisor::{Refusal, Supervisor};
use crate::task::Task;

/// Answers one request.
pub fn answer(tasks: &Supervisor, request: &Request) -> Response {
    let segments: Vec<&str> = request.path.split('/').skip(1).collect();
    match (request.method.as_str(), segments.as_slice()) {
        ("GET", ["health"]) => json(200, &serde_json::json!({ "status": "healthy" })),
        ("GET", ["getTasks"]) => json(200, &tasks.list()),
        ("POST", ["setTasks"]) => set(tasks, request),
        ("POST", ["tasks"]) => create(tasks, request),
        ("GET", ["tasks", name]) => match tasks.get(name) {
            Some(task) => json(200, &task),
            None => Response::error(404, &format!("there is no task {name:?}")),
        },
        ("DELETE", ["tasks", name]) => {
            tasks.delete(name);
            Response { status: 204, body: Vec::new() }
        }
        (_, ["health" | "getTasks" | "setTasks" | "tasks"] | ["tasks", _]) => {
            Response::error(405, &format!("{} is not possible on {}", request.method, request.path))
        }
        _ => Response::error(404, &format!("there is nothing at {}", request.path)),
    }
}

fn set(tasks: &Supervisor, request: &Request) -> Response {
    let desired: Option<Vec<Task>> = match parse(request) {
        Ok(desired) => desired,
        Err(wrong) => return wrong,
    };
    match tasks.set(desired.unwrap_or_default()) {
        Ok(all) => json(200, &all),
        Err(refused) => {
            let messages: Vec<&str> = refused.iter().map(Refusal::message).collect();
            Response::error(500, &messages.join("; "))
        }
    }
}

fn create(tasks: &Supervisor, request: &Request) -> Response {
    let task: Task = match parse(request) {
        Ok(task) => task,
        Err(wrong) => return wrong,
    };
    if task.name.is_empty() {
        return Response::error(400, "the task has no name");
    }
    match tasks.create(task) {
        Ok(created) => json(201, &created),
        Err(refusal) => {
            let status = match refusal {
                Refusal::Flawed(_) | Refusal::Taken(_) | Refusal::NotStarted(_) => 500,
                Refusal::Ending(_) => 503,
            };
            Response::error(status, refusal.message())
        }
    }
}

fn parse<T: DeserializeOwned>(request: &Request) -> Result<T, Response> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Response::error(400, &format!("the body is not valid: {error}")))
}

fn json(status: u16, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => Response { status, body },
        Err(error) => Response::error(500, &format!("the answer cannot be written: {error}")),
    }
}

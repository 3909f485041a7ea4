//! The shapes on the wire: request bodies and queries in, answers out.
//!
//! Reading a request only says whether it has the asked-for shape (422); whether it can be done is
//! the business of the room that does it (400 and up).

pub mod create;
pub mod query;
pub mod sandbox;
pub mod time;
pub mod volume;

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::{Fault, Fields, Problem, Problems};

/// Reads an object; any problem makes the whole request a 422.
///
/// # Errors
/// 422 with every problem found, or because the body is not an object.
pub fn read_body<T>(body: &Value, read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, ApiError> {
    let Value::Object(map) = body else {
        return Err(shape_of_whole("the body must be a JSON object"));
    };
    let problems = Problems::default();
    let out = read(&Fields::root(map, &problems));
    let problems = problems.into_vec();
    match out {
        Some(out) if problems.is_empty() => Ok(out),
        Some(_) | None => Err(ApiError::shape("body", &problems)),
    }
}

/// 422 for a body that cannot even be looked into.
#[must_use]
pub fn shape_of_whole(message: &str) -> ApiError {
    ApiError::shape("body", &[Problem { fault: Fault::Type, path: Vec::new(), message: message.to_owned() }])
}

/// A JSON object without the entries whose value is nothing: the API never answers `null`.
#[derive(Debug, Default)]
pub struct Answer(Map<String, Value>);

impl Answer {
    /// An empty object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an entry if there is a value for it.
    #[must_use]
    pub fn maybe(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The finished object.
    #[must_use]
    pub fn done(self) -> Value {
        Value::Object(self.0)
    }
}

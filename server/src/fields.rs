//! Reading an object key by key: one reader for the configuration file and for request bodies.
//!
//! Both promise the same to the person who wrote them: every problem is told at once, each by the
//! full name of its key, and no value is repeated back (a value may be a password).
//! Types are read as leniently as the reference reads them: `"60"` and `60.0` are integers,
//! `"yes"` is a boolean, `null` is absence.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// What kind of mistake a [`Problem`] is; the words are those of the reference's 422 bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A required key is not there.
    Missing,
    /// The value has another type than the key asks for.
    Type,
    /// The type fits, the value does not.
    Value,
    /// The key is not known and this object is strict.
    Unknown,
}

impl Fault {
    /// The `type` of a detail entry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Type => "type_error",
            Self::Value => "value_error",
            Self::Unknown => "extra_forbidden",
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake.
    pub fault: Fault,
    /// The keys that lead to it, outermost first; list positions are decimal numbers.
    pub path: Vec<String>,
    /// What is wrong, without the value.
    pub message: String,
}

impl Problem {
    /// `volumes[0].name`-like name of the key; empty for the whole object.
    #[must_use]
    pub fn key(&self) -> String {
        let mut out = String::new();
        for part in &self.path {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                out.push_str(&format!("[{part}]"));
            } else {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(part);
            }
        }
        out
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        if key.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{key}: {}", self.message)
        }
    }
}

/// Where problems gather while an object is read.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
}

impl Problems {
    /// Everything found so far, in reading order.
    #[must_use]
    pub fn into_vec(self) -> Vec<Problem> {
        self.found.into_inner()
    }

    fn add(&self, problem: Problem) {
        self.found.borrow_mut().push(problem);
    }
}

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// One object and the way that led to it.
#[derive(Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: Vec<String>,
    problems: &'a Problems,
    read: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Fields<'a> {
    /// The outermost object.
    #[must_use]
    pub fn root(map: &'a Map<String, Value>, problems: &'a Problems) -> Self {
        Self::at(map, Vec::new(), problems)
    }

    fn at(map: &'a Map<String, Value>, path: Vec<String>, problems: &'a Problems) -> Self {
        Self { map, path, problems, read: RefCell::default() }
    }

    fn below(&self, name: &str) -> Vec<String> {
        let mut path = self.path.clone();
        path.push(name.to_owned());
        path
    }

    /// Records that the value of `name` cannot be used.
    pub fn refuse(&self, name: &str, message: impl Into<String>) {
        self.report(Fault::Value, self.below(name), message.into());
    }

    /// Records that the object as a whole breaks a rule between its keys.
    pub fn refuse_whole(&self, message: impl Into<String>) {
        self.report(Fault::Value, self.path.clone(), message.into());
    }

    fn report(&self, fault: Fault, path: Vec<String>, message: String) {
        self.problems.add(Problem { fault, path, message });
    }

    fn wrong_type(&self, name: &str, wanted: &str, got: &Value) {
        let message = format!("must be {wanted}, not {}", kind_of(got));
        self.report(Fault::Type, self.below(name), message);
    }

    /// The raw value, `null` counting as absent. `name` is accepted in snake case, too.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        let snake = snake_case(name);
        for candidate in [name, snake.as_str()] {
            if let Some((key, value)) = self.map.get_key_value(candidate) {
                self.read.borrow_mut().insert(key.as_str());
                if !value.is_null() {
                    return Some(value);
                }
            }
        }
        None
    }

    /// Records a missing key when `value` is nothing and the key itself is absent (a key of a
    /// wrong type was reported already).
    pub fn required<T>(&self, name: &str, value: Option<T>) -> Option<T> {
        if value.is_none() && self.value(name).is_none() {
            self.report(Fault::Missing, self.below(name), "is required".to_owned());
        }
        value
    }

    /// A string.
    pub fn string(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::String(text) => Some(text.clone()),
            other => {
                self.wrong_type(name, "a string", other);
                None
            }
        }
    }

    /// A string with at least one character.
    pub fn filled(&self, name: &str) -> Option<String> {
        let text = self.string(name)?;
        if text.is_empty() {
            self.refuse(name, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// A string that is not blank, trimmed; a blank one counts as absent.
    pub fn words(&self, name: &str) -> Option<String> {
        let text = self.string(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An integer of at least `min` and at most `max`.
    pub fn int(&self, name: &str, min: i64, max: i64) -> Option<i64> {
        let value = self.value(name)?;
        let Some(number) = as_int(value) else {
            self.wrong_type(name, "an integer", value);
            return None;
        };
        if number < min || number > max {
            let bound = if number < min { format!("at least {min}") } else { format!("at most {max}") };
            self.refuse(name, format!("must be {bound}"));
            return None;
        }
        Some(number)
    }

    /// A number greater than zero.
    pub fn positive(&self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        let number = match value {
            Value::Number(n) => n.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match number {
            Some(n) if n > 0.0 => Some(n),
            Some(_) => {
                self.refuse(name, "must be greater than 0");
                None
            }
            None => {
                self.wrong_type(name, "a number", value);
                None
            }
        }
    }

    /// A boolean.
    pub fn bool(&self, name: &str) -> Option<bool> {
        let value = self.value(name)?;
        let read = match value {
            Value::Bool(b) => Some(*b),
            Value::String(text) => read_bool(text),
            Value::Number(n) => n.as_i64().and_then(|n| read_bool(&n.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        if read.is_none() {
            self.wrong_type(name, "true or false", value);
        }
        read
    }

    /// One of a closed set of words; `words` pairs each with its meaning.
    pub fn one_of<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.string(name)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.refuse(name, format!("must be one of {}", known.join(", ")));
        }
        found
    }

    /// A list of strings.
    pub fn strings(&self, name: &str) -> Option<Vec<String>> {
        let value = self.value(name)?;
        let Value::Array(items) = value else {
            self.wrong_type(name, "a list of strings", value);
            return None;
        };
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item {
                Value::String(text) => out.push(text.clone()),
                other => {
                    let mut path = self.below(name);
                    path.push(index.to_string());
                    let message = format!("must be a string, not {}", kind_of(other));
                    self.report(Fault::Type, path, message);
                }
            }
        }
        Some(out)
    }

    /// A map from string to string.
    pub fn string_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let entries = self.nullable_map(name)?;
        let mut out = BTreeMap::new();
        for (key, value) in entries {
            match value {
                Some(text) => {
                    out.insert(key, text);
                }
                None => {
                    let mut path = self.below(name);
                    path.push(key);
                    self.report(Fault::Type, path, "must be a string, not null".to_owned());
                }
            }
        }
        Some(out)
    }

    /// A map from string to string or null, in the order written.
    pub fn nullable_map(&self, name: &str) -> Option<Vec<(String, Option<String>)>> {
        let value = self.value(name)?;
        let Value::Object(map) = value else {
            self.wrong_type(name, "an object with string values", value);
            return None;
        };
        let mut out = Vec::with_capacity(map.len());
        for (key, item) in map {
            match item {
                Value::String(text) => out.push((key.clone(), Some(text.clone()))),
                Value::Null => out.push((key.clone(), None)),
                other => {
                    let mut path = self.below(name);
                    path.push(key.clone());
                    let message = format!("must be a string, not {}", kind_of(other));
                    self.report(Fault::Type, path, message);
                }
            }
        }
        Some(out)
    }

    /// An object.
    pub fn object(&self, name: &str) -> Option<Fields<'a>> {
        match self.value(name)? {
            Value::Object(map) => Some(Fields::at(map, self.below(name), self.problems)),
            other => {
                self.wrong_type(name, "an object", other);
                None
            }
        }
    }

    /// An object that reads as an empty one when it is absent, so that its defaults and its
    /// required keys apply.
    pub fn section(&self, name: &str) -> Fields<'a> {
        self.object(name).unwrap_or_else(|| Fields::at(&EMPTY, self.below(name), self.problems))
    }

    /// A list of objects.
    pub fn objects(&self, name: &str) -> Option<Vec<Fields<'a>>> {
        let value = self.value(name)?;
        let Value::Array(items) = value else {
            self.wrong_type(name, "a list of objects", value);
            return None;
        };
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let mut path = self.below(name);
            path.push(index.to_string());
            match item {
                Value::Object(map) => out.push(Fields::at(map, path, self.problems)),
                other => {
                    let message = format!("must be an object, not {}", kind_of(other));
                    self.report(Fault::Type, path, message);
                }
            }
        }
        Some(out)
    }

    /// Whether the key is there with a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Full names of the keys that nothing has asked for.
    #[must_use]
    pub fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        self.map
            .keys()
            .filter(|key| !read.contains(key.as_str()))
            .map(|key| Problem { fault: Fault::Unknown, path: self.below(key), message: String::new() }.key())
            .collect()
    }

    /// Refuses every key that nothing has asked for: this object is strict.
    pub fn nothing_else(&self) {
        let read = self.read.borrow();
        for key in self.map.keys().filter(|key| !read.contains(key.as_str())) {
            self.report(Fault::Unknown, self.below(key), "is not known here".to_owned());
        }
    }
}

/// The words that the reference takes for a boolean, in any case.
#[must_use]
pub fn read_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "y" | "t" => Some(true),
        "false" | "0" | "no" | "off" | "n" | "f" => Some(false),
        _ => None,
    }
}

fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().or_else(|| {
            let float = n.as_f64()?;
            // Beyond 2^53 a float no longer says which integer was meant.
            (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T>(value: Value, with: impl FnOnce(&Fields<'_>) -> T) -> (T, Vec<Problem>) {
        let map = value.as_object().unwrap().clone();
        let problems = Problems::default();
        let out = with(&Fields::root(&map, &problems));
        (out, problems.into_vec())
    }

    #[test]
    fn every_problem_is_told_at_once_and_by_its_full_name() {
        let body = json!({"timeout": "soon", "image": {"uri": 7}, "volumes": [{"name": "a"}, 3]});
        let ((), problems) = read(body, |f| {
            f.int("timeout", 60, i64::MAX);
            f.object("image").map(|image| image.string("uri"));
            f.objects("volumes");
        });
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "timeout: must be an integer, not a string",
                "image.uri: must be a string, not a number",
                "volumes[1]: must be an object, not a number",
            ]
        );
    }

    #[test]
    fn numbers_are_read_as_leniently_as_the_reference_reads_them() {
        let body = json!({"a": "60", "b": 60.0, "c": "60.5", "resource_limits": {"cpu": "1"}});
        let (out, problems) = read(body, |f| {
            (f.int("a", 0, 99), f.int("b", 0, 99), f.int("c", 0, 99), f.string_map("resourceLimits"))
        });
        assert_eq!((out.0, out.1, out.2), (Some(60), Some(60), None));
        assert_eq!(out.3.unwrap()["cpu"], "1");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn keys_that_nobody_asked_for_are_known_by_their_full_name() {
        let (unread, _) = read(json!({"a": 1, "b": {"x": 1, "y": 2}}), |f| {
            f.int("a", 0, 9);
            let b = f.object("b").unwrap();
            b.int("x", 0, 9);
            b.unread()
        });
        assert_eq!(unread, ["b.y"]);
    }
}

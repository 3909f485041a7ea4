//! Reading an object key by key: one reader for the configuration file and for request bodies.
//!
//! Both promise the same to the person who wrote them: every problem is told at once, each by the
//! full name of its key, and no value is repeated back (a value may be a password).
//! Types are read as leniently as the reference reads them: `"60"` and `60.0` are integers,
//! `"yes"` is a boolean, `null` is absence.

mod problem;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub use problem::{Fault, Problem};

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

    fn wrong_item(&self, name: &str, item: &str, wanted: &str, got: &Value) {
        let mut path = self.below(name);
        path.push(item.to_owned());
        self.report(Fault::Type, path, format!("must be {wanted}, not {}", kind_of(got)));
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
        let value = self.value(name)?;
        let text = value.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(name, "a string", value);
        }
        text
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
            match item.as_str() {
                Some(text) => out.push(text.to_owned()),
                None => self.wrong_item(name, &index.to_string(), "a string", item),
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
            match item.as_str() {
                Some(text) => out.push((key.clone(), Some(text.to_owned()))),
                None if item.is_null() => out.push((key.clone(), None)),
                None => self.wrong_item(name, key, "a string", item),
            }
        }
        Some(out)
    }

    /// An object.
    pub fn object(&self, name: &str) -> Option<Fields<'a>> {
        let value = self.value(name)?;
        let Some(map) = value.as_object() else {
            self.wrong_type(name, "an object", value);
            return None;
        };
        Some(Fields::at(map, self.below(name), self.problems))
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
            match item.as_object() {
                Some(map) => out.push(Fields::at(map, path, self.problems)),
                None => self.wrong_item(name, &index.to_string(), "an object", item),
            }
        }
        Some(out)
    }

    /// Whether the key is there with a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The full name of a key of this object.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        Problem { fault: Fault::Unknown, path: self.below(name), message: String::new() }.key()
    }

    /// Full names of the keys that nothing has asked for.
    #[must_use]
    pub fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        self.map.keys().filter(|key| !read.contains(key.as_str())).map(|key| self.key(key)).collect()
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
mod tests;

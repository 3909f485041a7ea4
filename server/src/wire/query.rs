//! Query strings.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::error::{ApiError, Code};
use crate::fields::{Fault, Problem, read_bool};
use crate::store::Filter;
use crate::view::State;

/// Largest page.
const MAX_PAGE_SIZE: usize = 200;

/// Pairs of a query string, decoded, in the order written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a raw query string.
    #[must_use]
    pub fn read(raw: Option<&str>) -> Self {
        let parts = raw.unwrap_or_default().split('&').filter(|part| !part.is_empty());
        Self(
            parts.map(|part| part.split_once('=').unwrap_or((part, ""))).map(|(k, v)| (decode(k), decode(v))).collect(),
        )
    }

    fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean; absent is `false`.
    ///
    /// # Errors
    /// 422 for any other word.
    pub fn bool(&self, name: &str) -> Result<bool, ApiError> {
        match self.last(name) {
            None => Ok(false),
            Some(text) => read_bool(text).ok_or_else(|| wrong(name, Fault::Type, "must be true or false")),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// 422 when it is not one.
    pub fn int(&self, name: &str) -> Result<Option<i128>, ApiError> {
        let Some(text) = self.last(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| wrong(name, Fault::Type, "must be an integer"))
    }
}

fn wrong(name: &str, fault: Fault, message: &str) -> ApiError {
    ApiError::shape("query", &[Problem { fault, path: vec![name.to_owned()], message: message.to_owned() }])
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// What a list asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Which sandboxes.
    pub filter: Filter,
    /// Page, from 1.
    pub page: usize,
    /// Sandboxes a page.
    pub page_size: usize,
}

impl ListQuery {
    /// Reads the query of a list.
    ///
    /// # Errors
    /// 422 for a page out of range, 400 for a filter that is not `k=v&k2=v2`.
    pub fn read(query: &Query) -> Result<Self, ApiError> {
        let page = bounded(query, "page", 1, usize::MAX >> 1)?.unwrap_or(1);
        let page_size = bounded(query, "pageSize", 1, MAX_PAGE_SIZE)?.unwrap_or(20);
        let words: Vec<&str> = query.all("state").collect();
        let states = (!words.is_empty()).then(|| {
            let named = |word: &str| State::ALL.into_iter().find(|s| s.as_str().eq_ignore_ascii_case(word));
            // A word that is no state matches nothing; others of the list still count.
            words.iter().filter_map(|word| named(word)).collect()
        });
        let metadata = metadata(query.last("metadata").unwrap_or_default())?;
        Ok(Self { filter: Filter { states, metadata }, page, page_size })
    }
}

fn bounded(query: &Query, name: &str, min: usize, max: usize) -> Result<Option<usize>, ApiError> {
    let Some(number) = query.int(name)? else { return Ok(None) };
    match usize::try_from(number) {
        Ok(n) if n >= min && n <= max => Ok(Some(n)),
        Ok(_) | Err(_) => Err(wrong(name, Fault::Value, &format!("must be between {min} and {max}"))),
    }
}

/// The filter is itself an encoded query string: clients encode it once or twice, both work.
fn metadata(text: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let mut out = BTreeMap::new();
    if text.is_empty() {
        return Ok(out);
    }
    for segment in text.split('&') {
        let Some((key, value)) = segment.split_once('=') else {
            let message = "the query parameter metadata must look like key=value&key2=value2";
            return Err(ApiError::bad(Code::InvalidMetadataFormat, message));
        };
        out.insert(decode(key), decode(value));
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn list(raw: &str) -> Result<ListQuery, ApiError> {
        ListQuery::read(&Query::read(Some(raw)))
    }

    #[test]
    fn a_metadata_filter_is_read_whether_it_was_encoded_once_or_twice() {
        // Values encoded before they were joined (Python), or only the whole (npm).
        for raw in ["metadata=team%3Dr%2520d%26env%3Ddev", "metadata=team%3Dr+d%26env%3Ddev&page=1"] {
            let filter = list(raw).unwrap().filter;
            assert_eq!(filter.metadata["team"], "r d", "{raw}");
            assert_eq!(filter.metadata["env"], "dev", "{raw}");
        }
    }

    #[test]
    fn pages_out_of_range_are_refused_by_name() {
        for (raw, name) in [("page=0", "page:"), ("pageSize=201", "pageSize:"), ("pageSize=x", "pageSize:")] {
            let error = list(raw).unwrap_err();
            assert_eq!(error.status, 422);
            assert!(error.message.starts_with(name), "{}", error.message);
        }
        assert_eq!(list("").unwrap().page_size, 20);
    }

    #[test]
    fn states_are_a_union_and_an_empty_one_matches_nothing() {
        assert_eq!(
            list("state=running&state=FAILED").unwrap().filter.states,
            Some(vec![State::Running, State::Failed])
        );
        assert_eq!(list("state=").unwrap().filter.states, Some(vec![]));
        assert_eq!(list("x=1").unwrap().filter.states, None);
    }

    #[test]
    fn a_filter_without_an_equals_sign_is_refused() {
        assert_eq!(list("metadata=abc").unwrap_err().code, Code::InvalidMetadataFormat);
    }
}

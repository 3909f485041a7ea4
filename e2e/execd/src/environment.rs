//! Variables of commands: execd's own, over them the file named by `EXECD_ENVS`, over that the request's.

use std::collections::BTreeMap;

/// The variables in the `EXECD_ENVS` file now; a later line wins. Empty without the file.
pub fn kept() -> BTreeMap<String, String> {
    let Some(path) = std::env::var_os("EXECD_ENVS") else {
        return BTreeMap::new();
    };
    parse(&std::fs::read_to_string(path).unwrap_or_default())
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let quoted = |quote: char| value.trim_end().strip_prefix(quote)?.strip_suffix(quote);
    let value = if let Some(literal) = quoted('\'') {
        literal.to_owned()
    } else if let Some(escaped) = quoted('"') {
        unescape(escaped)
    } else {
        value.trim_end().to_owned()
    };
    (!name.is_empty()).then(|| (name.trim().to_owned(), value))
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (plain, false) => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_the_sdks_write_are_read_back() {
        let kept = parse("A='x $y'\n# no\nB=\"it's\\n2\"\nexport C=plain\nA=later\n");
        assert_eq!(kept.get("A").map(String::as_str), Some("later"));
        assert_eq!(kept.get("B").map(String::as_str), Some("it's\n2"));
        assert_eq!(kept.get("C").map(String::as_str), Some("plain"));
    }
}

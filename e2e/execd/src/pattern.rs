//! Patterns of names: `*` and `?` within one segment, `**` across segments.

/// Whether `path`, relative to where the search began, is meant by `pattern`. One without a slash is about the last
/// segment alone.
pub fn matches(pattern: &str, path: &str) -> bool {
    let path = if pattern.contains('/') || pattern == "**" { path } else { path.rsplit('/').next().unwrap_or(path) };
    let pattern: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    let path: Vec<&str> = path.split('/').collect();
    segments(&pattern, &path)
}

fn segments(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), Some((_, tail))) => segments(rest, path) || segments(pattern, tail),
        (Some((&"**", rest)), None) => segments(rest, path),
        (Some((first, rest)), Some((name, tail))) => segment(first.as_bytes(), name.as_bytes()) && segments(rest, tail),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn segment(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), Some((_, tail))) => segment(rest, name) || segment(pattern, tail),
        (Some((b'*', rest)), None) => segment(rest, name),
        (Some((b'?', rest)), Some((_, tail))) => segment(rest, tail),
        (Some((one, rest)), Some((other, tail))) => one == other && segment(rest, tail),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_in_their_segment_and_double_stars_do_not() {
        assert!(matches("*.txt", "a/b/c.txt"));
        assert!(matches("**", "a/b"));
        assert!(matches("a/**/c.txt", "a/b/b/c.txt") && matches("a/**/c.txt", "a/c.txt"));
        assert!(matches("a/*.txt", "a/c.txt") && !matches("a/*.txt", "a/b/c.txt"));
        assert!(matches("?.rs", "x.rs") && !matches("?.rs", "xy.rs"));
    }
}

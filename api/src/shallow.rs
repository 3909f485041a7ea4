//! Keeps JSON of the API server as deep as can be decoded.
//!
//! Open fields (`template`, `taskTemplate`, …) take any nesting, and the API server stores it; `serde_json` gives up
//! at 128 levels. Without this, one object of one user would fail every list and watch, and so stop the operator and
//! the server for all.

/// Levels that are kept. A Pod needs about 15; `serde_json` reads 128.
const KEPT: usize = 96;

/// Replaces what is nested deeper than any Pod by `null`, in a stream of JSON documents that comes in chunks.
///
/// Nothing that Kubernetes knows is that deep, so nothing is lost that could mean anything.
#[derive(Clone, Debug, Default)]
pub struct Shallow {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Shallow {
    /// The next chunk of the stream as it may be read; `None` when it may be read as it is.
    pub fn pass(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        let mut kept: Option<Vec<u8>> = None;
        let mut copied = 0;
        for (index, &byte) in chunk.iter().enumerate() {
            let before = self.depth;
            self.step(byte);
            if before == KEPT && self.depth > KEPT {
                let out = kept.get_or_insert_default();
                out.extend_from_slice(chunk.get(copied..index).unwrap_or_default());
                out.extend_from_slice(b"null");
            }
            if before > KEPT {
                kept.get_or_insert_default();
                copied = index + 1;
            }
        }
        let deep = self.depth > KEPT;
        let out = kept.as_mut()?;
        if !deep {
            out.extend_from_slice(chunk.get(copied..).unwrap_or_default());
        }
        kept
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn nested(levels: usize, inner: &str) -> String {
        format!("{}{inner}{}", r#"{"a":["#.repeat(levels / 2), "]}".repeat(levels / 2))
    }

    /// The whole stream, cut into chunks of every size from one byte on.
    fn passes(stream: &str) -> Vec<String> {
        (1..=stream.len().min(300))
            .map(|size| {
                let mut shallow = Shallow::default();
                let mut out = Vec::new();
                for chunk in stream.as_bytes().chunks(size) {
                    match shallow.pass(chunk) {
                        Some(changed) => out.extend(changed),
                        None => out.extend_from_slice(chunk),
                    }
                }
                String::from_utf8(out).unwrap()
            })
            .collect()
    }

    #[test]
    fn what_a_pod_may_look_like_is_left_as_it_is() {
        for stream in [nested(KEPT, r#""} ] \" \\" , 1"#), nested(20, "[]"), "{}\n{\"a\":\"[[[[\"}\n".into()] {
            let mut shallow = Shallow::default();
            assert_eq!(shallow.pass(stream.as_bytes()), None);
            assert!(passes(&stream).iter().all(|out| *out == stream));
        }
    }

    #[test]
    fn what_is_deeper_becomes_null_however_the_stream_is_cut() {
        let deep = nested(1000, r#"{"x":"]}\"","y":[1]}"#);
        let stream = format!("{{\"list\":[{deep},{{\"b\":2}}]}}\n{{\"type\":\"ADDED\"}}\n");
        let outs = passes(&stream);
        assert!(outs.windows(2).all(|pair| pair[0] == pair[1]), "the same for every size of chunk");
        let lines: Vec<Value> = outs[0].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["list"][1]["b"], 2);
        assert_eq!(lines[1]["type"], "ADDED");
        assert!(outs[0].contains("null"));
    }

    #[test]
    fn siblings_of_a_deep_value_stay() {
        let stream = nested(KEPT, r#"[["gone"]],{"b":"gone"},"kept",7"#);
        assert_eq!(passes(&stream)[40], nested(KEPT, r#"null,null,"kept",7"#));
    }
}

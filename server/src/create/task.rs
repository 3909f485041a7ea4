//! Pool mode: entrypoint and environment travel as the task.

use serde_json::{Value, json};

use super::{Given, env_list};
use crate::config::Config;
use crate::wire::create::CreateRequest;

/// `spec.taskTemplate` of a sandbox that takes a Pod of a Pool.
pub(super) fn template(config: &Config, request: &CreateRequest, given: &Given, entrypoint: &[String]) -> Value {
    let quoted: Vec<String> = entrypoint.iter().map(|word| quote(word)).collect();
    let line = format!("exec /opt/opensandbox/bootstrap.sh {}", quoted.join(" "));
    let mut env: Vec<(&str, Option<&str>)> = request.env.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
    if config.runtime.execd_run_as_init {
        env.push(("EXECD_INIT", Some("1")));
    }
    env.push(("OPENSANDBOX_ID", Some(&given.id)));
    json!({"spec": {"process": {"command": ["/bin/sh", "-c", line], "env": env_list(env)}}})
}

/// One word of a POSIX shell command.
fn quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"@%_-+=:,./".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn a_word_reaches_the_process_as_it_was_sent() {
        assert_eq!(quote("tail"), "tail");
        assert_eq!(quote("/dev/null"), "/dev/null");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("echo \"hi $X\""), "'echo \"hi $X\"'");
        assert_eq!(quote("it's"), "'it'\"'\"'s'");
        assert_eq!(quote("ä;b"), "'ä;b'");
    }
}

//! The command line, in the syntax of Go's `flag` package: `-x=v`, `--x v`, booleans as Go reads them.
//!
//! Names, environment variables and defaults are those of `spec/controllers.md` §3.8.6. Precedence: flag, then
//! environment, then default.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::log::Limits;

/// What `-h` prints.
pub const USAGE: &str = "Usage of task-executor:
  -data-dir string            where each task keeps its output (env DATA_DIR, default /var/lib/sandbox/tasks)
  -listen-addr string         IP:port or :port to serve on (env LISTEN_ADDR, default 0.0.0.0:5758)
  -log-dir string             where task-executor.log goes (default logs)
  -log-max-size int           size of that log in MB before it is rotated (default 100)
  -log-max-backups int        rotated logs to keep (default 10)
  -log-max-age int            days to keep a rotated log (default 7)
  -stop-grace-seconds int     time between SIGTERM and SIGKILL when a task is stopped (default 10)
  -output-max-size int        size of a task's stdout or stderr file in MB before it starts anew (default 100)
  -cri-socket string          accepted and unused (env CRI_SOCKET)
  -enable-sidecar-mode        not available: run the executor in the sandbox container (env ENABLE_SIDECAR_MODE)
  -main-container-name string only for sidecar mode (env MAIN_CONTAINER_NAME)
";

/// A valid command line.
#[derive(Debug)]
pub enum Parsed {
    /// `-h` or `-help` was given.
    Help,
    /// Run with these.
    Run(Flags),
}

/// What the command line and the environment ask for.
#[derive(Debug)]
pub struct Flags {
    /// Each task has a directory of its own name in it.
    pub data_dir: PathBuf,
    /// Never a host name: the executor looks up no names.
    pub listen_addr: SocketAddr,
    /// Directory of the executor's own log, created if missing.
    pub log_dir: PathBuf,
    /// When that log is rotated and for how long the old ones stay.
    pub log_limits: Limits,
    /// Between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// Bytes of one output file of a task.
    pub output_limit: u64,
}

/// Reads the arguments after the program's name; `env` answers environment variables.
///
/// # Errors
/// One line saying which flag is wrong and what it takes.
pub fn parse(args: impl Iterator<Item = String>, env: impl Fn(&str) -> Option<String>) -> Result<Parsed, String> {
    let mut given = Given::from_env(env);
    let mut args = args;
    while let Some(argument) = args.next() {
        let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(format!("unexpected argument {argument:?}: every option starts with a dash"));
        };
        if flag.is_empty() {
            break;
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        match name {
            "h" | "help" => return Ok(Parsed::Help),
            "enable-sidecar-mode" => given.sidecar = boolean(name, value.as_deref())?,
            _ => {
                let slot = given.slot(name).ok_or_else(|| format!("flag provided but not defined: -{name}"))?;
                let value = value.or_else(|| args.next()).ok_or_else(|| format!("flag needs an argument: -{name}"))?;
                *slot = Some(value);
            }
        }
    }
    given.into_flags().map(Parsed::Run)
}

/// What was given, not looked at yet.
#[derive(Default)]
struct Given {
    data_dir: Option<String>,
    listen_addr: Option<String>,
    log_dir: Option<String>,
    log_max_size: Option<String>,
    log_max_backups: Option<String>,
    log_max_age: Option<String>,
    stop_grace: Option<String>,
    output_max_size: Option<String>,
    unused: Option<String>,
    sidecar: bool,
}

impl Given {
    fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        Self {
            data_dir: set("DATA_DIR"),
            listen_addr: set("LISTEN_ADDR"),
            sidecar: set("ENABLE_SIDECAR_MODE").as_deref() == Some("true"),
            ..Self::default()
        }
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "data-dir" => &mut self.data_dir,
            "listen-addr" => &mut self.listen_addr,
            "log-dir" => &mut self.log_dir,
            "log-max-size" => &mut self.log_max_size,
            "log-max-backups" => &mut self.log_max_backups,
            "log-max-age" => &mut self.log_max_age,
            "stop-grace-seconds" => &mut self.stop_grace,
            "output-max-size" => &mut self.output_max_size,
            "cri-socket" | "main-container-name" => &mut self.unused,
            _ => return None,
        })
    }

    fn into_flags(self) -> Result<Flags, String> {
        if self.sidecar {
            return Err("sidecar mode is not available in this executor: run it in the sandbox container \
                        and leave out -enable-sidecar-mode"
                .to_owned());
        }
        let megabytes = 1024 * 1024;
        Ok(Flags {
            data_dir: self.data_dir.unwrap_or_else(|| "/var/lib/sandbox/tasks".to_owned()).into(),
            listen_addr: address(self.listen_addr.as_deref().unwrap_or("0.0.0.0:5758"))?,
            log_dir: self.log_dir.unwrap_or_else(|| "logs".to_owned()).into(),
            log_limits: Limits {
                bytes: number("log-max-size", self.log_max_size, 100)? * megabytes,
                backups: number("log-max-backups", self.log_max_backups, 10)?,
                age: Duration::from_secs(number("log-max-age", self.log_max_age, 7)? * 24 * 3600),
            },
            stop_grace: Duration::from_secs(number("stop-grace-seconds", self.stop_grace, 10)?),
            output_limit: number("output-max-size", self.output_max_size, 100)? * megabytes,
        })
    }
}

fn number(name: &str, given: Option<String>, default: u64) -> Result<u64, String> {
    let Some(text) = given else {
        return Ok(default);
    };
    let parsed: u32 =
        text.parse().map_err(|_| format!("invalid value {text:?} for flag -{name}: give a whole number from 0"))?;
    Ok(u64::from(parsed))
}

fn boolean(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(other) => Err(format!("invalid boolean value {other:?} for -{name}: give true or false")),
    }
}

/// Go's `:5758` is every address of both families.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
    }
    text.parse()
        .map_err(|_| format!("invalid value {text:?} for flag -listen-addr: give IP:port or :port, not a host name"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn with(args: &[&str], env: &[(&str, &str)]) -> Result<Parsed, String> {
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        parse(args.iter().map(|text| (*text).to_owned()), lookup)
    }

    fn flags(args: &[&str], env: &[(&str, &str)]) -> Flags {
        match with(args, env).unwrap() {
            Parsed::Run(flags) => flags,
            Parsed::Help => panic!("no help was asked for"),
        }
    }

    #[test]
    fn the_seeds_arguments_are_understood() {
        let flags = flags(&["-listen-addr=0.0.0.0:5758", "-log-dir=/tmp"], &[]);
        assert_eq!(flags.listen_addr, "0.0.0.0:5758".parse().unwrap());
        assert_eq!(flags.log_dir, PathBuf::from("/tmp"));
        assert_eq!(flags.data_dir, PathBuf::from("/var/lib/sandbox/tasks"));
        assert_eq!(flags.stop_grace, Duration::from_secs(10));
    }

    #[test]
    fn one_dash_or_two_with_or_without_an_equals_sign_mean_the_same() {
        for args in [["-data-dir", "/d"].as_slice(), &["--data-dir", "/d"], &["-data-dir=/d"], &["--data-dir=/d"]] {
            assert_eq!(flags(args, &[]).data_dir, PathBuf::from("/d"));
        }
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_default() {
        let env = [("DATA_DIR", "/from-env"), ("LISTEN_ADDR", "127.0.0.1:1")];
        let flags = flags(&["-data-dir=/from-flag"], &env);
        assert_eq!(flags.data_dir, PathBuf::from("/from-flag"));
        assert_eq!(flags.listen_addr, "127.0.0.1:1".parse().unwrap());
    }

    #[test]
    fn a_bare_port_listens_on_every_address() {
        assert_eq!(flags(&["-listen-addr=:5758"], &[]).listen_addr, "[::]:5758".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        assert!(with(&["-nope"], &[]).unwrap_err().contains("-nope"));
        assert!(with(&["-listen-addr=somewhere:80"], &[]).unwrap_err().contains("-listen-addr"));
        assert!(with(&["-enable-sidecar-mode"], &[]).unwrap_err().contains("sidecar"));
        assert!(with(&["-log-max-age=-1"], &[]).unwrap_err().contains("-log-max-age"));
        assert!(with(&["-enable-sidecar-mode=false"], &[("ENABLE_SIDECAR_MODE", "true")]).is_ok());
    }
}

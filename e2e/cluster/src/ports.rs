//! Ports of this machine, taken so that no two clusters take the same one.

use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::home;

/// Below the kernel's ephemeral range, so that no outgoing connection takes one in between.
const RANGE: std::ops::Range<u16> = 21_000..31_000;

/// A port of the loopback address that is ours until this is dropped or this process ends.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lease: File,
}

impl Port {
    /// Takes a free port, for a program to listen on.
    ///
    /// # Errors
    /// When the lease directory cannot be written or all ports are taken.
    pub fn take() -> Result<Self> {
        Self::listening().map(|(port, _)| port)
    }

    /// Takes a free port and listens on it. Who listens himself must not give the socket back and bind anew: a child that is
    /// being started at that moment may still have it.
    ///
    /// # Errors
    /// As [`Port::take`].
    pub fn listening() -> Result<(Self, TcpListener)> {
        let dir = home::run().join("ports");
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let width = RANGE.end - RANGE.start;
        // Begin at a place of this process's own, so that neighbours seldom meet.
        let from = u16::try_from(std::process::id() % u32::from(width)).unwrap_or_default();
        for step in 0..width {
            let number = RANGE.start + (from + step) % width;
            if let Some(taken) = Self::try_take(&dir, number)? {
                return Ok(taken);
            }
        }
        bail!(
            "every port from {} to {} is taken; stop what you no longer need: sandbox-cluster plane down",
            RANGE.start,
            RANGE.end
        )
    }

    fn try_take(dir: &Path, number: u16) -> Result<Option<(Self, TcpListener)>> {
        let path = dir.join(number.to_string());
        let lease = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        match lease.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock {}", path.display())),
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok();
        Ok(listener.map(|listener| (Self { number, _lease: lease }, listener)))
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: Vec<Port> = (0..50).map(|_| Port::take().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
    }
}

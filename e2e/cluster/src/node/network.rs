//! The node's address, the way out for Pods, and what the machine looked like before.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::places::{LINK, NETWORK, NFT_TABLE};
use super::shell::{run, try_run};
use crate::control_plane::{NODE_ADDRESS, POD_RANGE};

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// Both ranges of RFC 2544.
const OURS: &str = "198.18.0.0/15";
const OUR_TABLES: &[(&str, &str)] = &[("ip", "kube-proxy"), ("ip6", "kube-proxy"), ("ip", NFT_TABLE)];

/// What is put back when the node ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Before {
    forwarding: String,
    tables: Vec<String>,
}

impl Before {
    /// Reads it from the machine.
    ///
    /// # Errors
    /// When nft is missing.
    pub fn read() -> Result<Self> {
        Ok(Self { forwarding: fs::read_to_string(FORWARD).unwrap_or_default(), tables: tables()? })
    }
}

fn tables() -> Result<Vec<String>> {
    Ok(run("nft", &["list", "tables"])?.lines().map(str::to_owned).collect())
}

/// Makes the link with the node's address, and lets Pods reach one another and the outside.
///
/// # Errors
/// When a tool fails.
pub fn set_up() -> Result<()> {
    try_run("ip", &["link", "add", LINK, "type", "bridge"]);
    run("ip", &["address", "replace", &format!("{NODE_ADDRESS}/32"), "dev", LINK])?;
    run("ip", &["link", "set", LINK, "up"])?;
    fs::write(FORWARD, "1").with_context(|| format!("write {FORWARD}"))?;
    try_run("nft", &["delete", "table", "ip", NFT_TABLE]);
    let rules = format!(
        "add table ip {NFT_TABLE}; \
         add chain ip {NFT_TABLE} out {{ type nat hook postrouting priority 100; }}; \
         add rule ip {NFT_TABLE} out ip saddr {POD_RANGE} ip daddr != {OURS} masquerade"
    );
    run("nft", &[&rules])?;
    if forward_is_closed() {
        for direction in ["-s", "-d"] {
            run(
                "iptables",
                &["-I", "FORWARD", direction, OURS, "-m", "comment", "--comment", NETWORK, "-j", "ACCEPT"],
            )?;
        }
    }
    Ok(())
}

/// Docker and firewalls let nothing be forwarded by default.
fn forward_is_closed() -> bool {
    run("nft", &["list", "chain", "ip", "filter", "FORWARD"]).is_ok_and(|chain| chain.contains("policy drop"))
}

/// Takes all of it away again.
pub fn tear_down(before: &Before) {
    for (family, table) in OUR_TABLES {
        try_run("nft", &["delete", "table", family, table]);
    }
    for direction in ["-s", "-d"] {
        if before.tables.iter().any(|table| table == "table ip filter") {
            try_run(
                "iptables",
                &["-D", "FORWARD", direction, OURS, "-m", "comment", "--comment", NETWORK, "-j", "ACCEPT"],
            );
        }
    }
    // Tables that the CNI plugins' iptables made are empty of anybody else's rules.
    for table in tables().unwrap_or_default() {
        let made_since = !before.tables.contains(&table);
        if made_since && IPTABLES.contains(&table.as_str()) {
            let mut words = vec!["delete"];
            words.extend(table.split(' '));
            try_run("nft", &words);
        }
    }
    try_run("ip", &["link", "delete", LINK]);
    if !before.forwarding.is_empty() {
        // Best effort: the machine then merely forwards, as it did while the node ran.
        let _ = fs::write(FORWARD, before.forwarding.trim());
    }
}

const IPTABLES: &[&str] = &[
    "table ip nat",
    "table ip filter",
    "table ip mangle",
    "table ip raw",
    "table ip6 nat",
    "table ip6 filter",
    "table ip6 mangle",
    "table ip6 raw",
];

//! Pod addresses of 198.18.0.0/16, each held by one Pod at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Hands out addresses by Pod uid.
#[derive(Default)]
pub struct Addresses {
    held: BTreeMap<String, u16>,
    taken: BTreeSet<u16>,
    next: u16,
}

/// 198.18.0.0 and .1 are the network and the node; 198.18.255.0/24 are the stand-in's nodes.
const FIRST: u16 = 2;
const LAST: u16 = 0xfeff;

impl Addresses {
    /// The Pod's address: the one it has, else the next free one. A freed address comes up again
    /// as late as possible, as in a cluster. With all taken, the last one is shared.
    pub fn of(&mut self, uid: &str) -> IpAddr {
        if let Some(number) = self.held.get(uid) {
            return address(*number);
        }
        let mut number = self.next.max(FIRST);
        for _ in FIRST..=LAST {
            if !self.taken.contains(&number) {
                break;
            }
            number = following(number);
        }
        self.next = following(number);
        self.taken.insert(number);
        self.held.insert(uid.to_owned(), number);
        address(number)
    }

    /// The Pod is gone.
    pub fn free(&mut self, uid: &str) {
        if let Some(number) = self.held.remove(uid) {
            self.taken.remove(&number);
        }
    }
}

fn following(number: u16) -> u16 {
    if number >= LAST { FIRST } else { number + 1 }
}

fn address(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(198, 18, high, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pods_share_an_address_and_one_keeps_its_own() {
        let mut addresses = Addresses::default();
        let all: BTreeSet<IpAddr> = (0..1000).map(|number| addresses.of(&number.to_string())).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(addresses.of("7"), addresses.of("7"));
    }

    #[test]
    fn a_freed_address_is_not_given_to_the_very_next_pod() {
        let mut addresses = Addresses::default();
        let first = addresses.of("a");
        addresses.free("a");
        assert_ne!(addresses.of("b"), first);
    }
}

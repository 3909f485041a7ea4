//! States and labels, to read.

use std::fmt;

use crate::bits::{CLAIMS, Claim, INDEXES, Life, Named, PODS, Pod, Pool, seated};
use crate::label::{Label, Who};
use crate::state::{Leader, Stage, State};

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Leader(at) => write!(f, "process {at}: ")?,
            Who::Cluster => write!(f, "cluster:   ")?,
            Who::User => write!(f, "user:      ")?,
        }
        write!(f, "{:?} {}", self.verb, self.target)
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.life() {
            Life::None => return write!(f, "-"),
            Life::Gone => return write!(f, "gone"),
            Life::Alive => {}
            Life::Ending => write!(f, "dead ")?,
            Life::Terminating => write!(f, "terminating ")?,
        }
        write!(f, "slot{}", self.slot())?;
        if self.warm() == 1 {
            write!(f, " warm")?;
        }
        if self.watched() == 0 {
            write!(f, " unwatched")?;
        }
        if let Some((claim, index)) = seated(self.label()) {
            write!(f, " label=c{claim}.{index}")?;
        }
        match self.owner() {
            0 => write!(f, " unowned")?,
            Self::ANCHOR => {}
            Self::POOL => write!(f, " owner=pool")?,
            claim => write!(f, " owner=c{}", claim - 1)?,
        }
        marks(f, self.current(), self.confirmed())
    }
}

fn marks(f: &mut fmt::Formatter<'_>, current: u8, confirmed: u8) -> fmt::Result {
    write!(f, "{}{}", if current == 1 { " =" } else { "" }, if confirmed == 1 { "†" } else { "" })
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.life() {
            Life::None => return write!(f, "-"),
            Life::Gone => return write!(f, "gone"),
            Life::Alive => {}
            Life::Ending | Life::Terminating => write!(f, "ending ")?,
        }
        write!(f, "x{}", self.replicas())?;
        for index in 0..INDEXES {
            match self.slot(index) {
                Named::Open => {}
                Named::Pod(pod) => write!(f, " {index}:p{pod}")?,
                Named::Lost(pod) => write!(f, " {index}:lost(p{pod})")?,
                Named::Undelivered(pod) => write!(f, " {index}:undelivered(p{pod})")?,
            }
        }
        write!(f, "{}{}", if self.told() == 1 { " told" } else { "" }, if self.due() == 1 { " due" } else { "" })?;
        marks(f, self.current(), self.confirmed())
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} holder={}", self.life(), self.holder())?;
        for pod in (0..PODS).filter(|pod| self.entry(*pod) != 0) {
            match self.granted(pod) {
                Some((claim, index)) => write!(f, " p{pod}->c{claim}.{index}")?,
                None => write!(f, " p{pod}:retiring")?,
            }
        }
        write!(f, "{}", if self.anchor() == 1 { " anchor" } else { "" })?;
        marks(f, self.current(), 0)
    }
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.up { "up" } else { "down" })?;
        write!(f, "{}", if self.starting { " starting" } else { "" })?;
        write!(f, "{} | pool {}", if self.listed { " listed" } else { "" }, self.pool)?;
        objects(f, &self.pods, &self.claims)?;
        if self.flight.stage != Stage::Idle {
            write!(f, " | {:?}", self.flight)?;
        }
        Ok(())
    }
}

fn objects(f: &mut fmt::Formatter<'_>, pods: &[Pod], claims: &[Claim]) -> fmt::Result {
    for (id, pod) in pods.iter().enumerate().filter(|(_, pod)| pod.life() != Life::None) {
        write!(f, " | p{id} {pod}")?;
    }
    for (id, claim) in
        claims.iter().enumerate().take(usize::from(CLAIMS)).filter(|(_, claim)| claim.life() != Life::None)
    {
        write!(f, " | c{id} {claim}")?;
    }
    Ok(())
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server: pool {}", self.pool)?;
        objects(f, &self.pods, &self.claims)?;
        write!(f, " | delivered {:?} ended {:b}", self.delivered, self.ended)?;
        for (at, leader) in self.leaders.iter().enumerate().filter(|(_, leader)| leader.up || leader.flight.orphan) {
            write!(f, "\n      process {at}: {leader}")?;
        }
        Ok(())
    }
}

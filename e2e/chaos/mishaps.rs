//! What befalls processes and nodes, by seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use sandbox_cluster::StandInKubelet;
use sandbox_e2e::audit::Record;
use sandbox_e2e::faults::Dice;
use tokio::time::sleep;

use crate::replicas::Replica;
use crate::tally::Tally;

const fn s(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Whom mishaps befall.
pub struct Victims<'a> {
    pub replicas: &'a [Arc<Replica>],
    pub kubelet: &'a StandInKubelet,
    pub record: &'a Record,
    pub tally: &'a Tally,
}

impl Victims<'_> {
    /// One mishap after the other, until the run is over; what was lost is then brought back by [`Victims::mend`].
    pub async fn befall(&self, seed: u64) -> Result<()> {
        let mut dice = Dice::at(seed, &["mishaps"], 0);
        loop {
            sleep(dice.between(s(5), s(15))).await;
            match dice.below(10) {
                0..=3 => self.kill(&mut dice).await?,
                4 => self.kill_all(&mut dice).await?,
                5 | 6 => self.hang(&mut dice).await,
                _ => self.lose_node(&mut dice).await?,
            }
        }
    }

    /// Brings back what was lost.
    pub async fn mend(&self) -> Result<()> {
        for replica in self.replicas {
            replica.hang(false);
            replica.run()?;
        }
        for node in self.kubelet.nodes() {
            self.kubelet.return_node(&node).await?;
        }
        Ok(())
    }

    fn leads(&self, replica: &Replica) -> bool {
        let leader = self.record.look(|world| world.leader.clone());
        leader.is_some_and(|(holder, _)| replica.was(&holder))
    }

    fn kill_one(&self, replica: &Replica) {
        let what = if self.leads(replica) { "leader" } else { "standby" };
        if replica.kill() {
            self.tally.add(format!("SIGKILL of the {what}"));
            self.record.tells(format!("SIGKILL {} ({what})", replica.name));
        }
    }

    async fn kill(&self, dice: &mut Dice) -> Result<()> {
        // The leader more often than not: it is the one with work in its hands.
        let leader = self.replicas.iter().find(|replica| self.leads(replica));
        let any = dice.pick(self.replicas);
        let Some(replica) = leader.filter(|_| dice.chance(60)).or(any) else { return Ok(()) };
        self.kill_one(replica);
        sleep(dice.between(Duration::from_millis(100), s(3))).await;
        replica.run()
    }

    async fn kill_all(&self, dice: &mut Dice) -> Result<()> {
        self.replicas.iter().for_each(|replica| self.kill_one(replica));
        sleep(dice.between(Duration::from_millis(100), s(2))).await;
        self.replicas.iter().try_for_each(|replica| replica.run())
    }

    async fn hang(&self, dice: &mut Dice) {
        let Some(replica) = dice.pick(self.replicas) else { return };
        let what = if self.leads(replica) { "leader" } else { "standby" };
        let time = dice.between(s(1), s(19));
        self.tally.add(format!("SIGSTOP of the {what}"));
        self.record.tells(format!("SIGSTOP {} ({what}) for {time:?}", replica.name));
        replica.hang(true);
        sleep(time).await;
        replica.hang(false);
    }

    async fn lose_node(&self, dice: &mut Dice) -> Result<()> {
        let nodes = self.kubelet.nodes();
        let Some(node) = dice.pick(&nodes) else { return Ok(()) };
        self.tally.add("node lost");
        self.record.tells(format!("node {node} lost"));
        self.kubelet.lose_node(node).await?;
        sleep(dice.between(s(2), s(10))).await;
        self.record.tells(format!("node {node} is back"));
        self.kubelet.return_node(node).await
    }
}

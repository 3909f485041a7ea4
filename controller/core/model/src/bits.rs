//! Objects as bits: a state of the model must be small, since there are tens of millions of them.

use sandbox_core::grant::PodLife;

/// Most Pods (uids) that a world may ever have.
pub const PODS: u8 = 4;
/// Most claims.
pub const CLAIMS: u8 = 3;
/// Most sandboxes of one claim.
pub const INDEXES: u8 = 2;
/// Processes that may lead.
pub const LEADERS: u8 = 2;

/// Getters and setters of a packed type: name, setter, first bit, bits.
macro_rules! fields {
    ($type:ident($word:ty) { $($(#[$doc:meta])* $get:ident $set:ident $at:literal + $width:literal;)* }) => {
        impl $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $get(self) -> u8 {
                    ((self.0 >> $at) & ((1 << $width) - 1)) as u8
                }

                $(#[$doc])*
                #[must_use]
                pub const fn $set(self, value: u8) -> Self {
                    let mask: $word = ((1 << $width) - 1) << $at;
                    Self((self.0 & !mask) | (((value as $word) << $at) & mask))
                }
            )*
        }
    };
}

/// One Pod: what the API server has, or one version of it in a process's store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod(pub u16);

fields!(Pod(u16) {
    /// [`Life`] as a number.
    life_code with_life_code 0 + 3;
    /// The positive clean mark.
    warm with_warm 3 + 1;
    /// The label that the watch selects by.
    watched with_watched 4 + 1;
    /// The claim and index that its labels name: 0 for none, see [`seat`].
    label with_label 5 + 3;
    /// Its owner: 0 none, 1.. a claim, [`Pod::ANCHOR`], [`Pod::POOL`].
    owner with_owner 8 + 3;
    /// The slot that its name stands for.
    slot with_slot 11 + 2;
    /// In a store: this is the server's newest version.
    current with_current 13 + 1;
    /// In a store: the still-mine rule holds for this version.
    confirmed with_confirmed 14 + 1;
});

/// How far an object is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Of the server: not created yet. In a store: not there, which proves nothing.
    None,
    /// Exists.
    Alive,
    /// A Pod that ended by itself; a claim or Pool that is being deleted in the foreground.
    Ending,
    /// A Pod with a deletion timestamp.
    Terminating,
    /// Of the server: deleted. In a store: proven gone.
    Gone,
}

impl Life {
    const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Alive => 1,
            Self::Ending => 2,
            Self::Terminating => 3,
            Self::Gone => 4,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Alive,
            2 => Self::Ending,
            3 => Self::Terminating,
            _ => Self::Gone,
        }
    }

    /// Whether the API server has such an object.
    #[must_use]
    pub const fn exists(self) -> bool {
        match self {
            Self::None | Self::Gone => false,
            Self::Alive | Self::Ending | Self::Terminating => true,
        }
    }
}

/// An index of a claim, as a number from 1.
#[must_use]
pub const fn seat(claim: u8, index: u8) -> u8 {
    claim * INDEXES + index + 1
}

/// Claim and index of a seat; none for 0.
#[must_use]
pub const fn seated(seat: u8) -> Option<(u8, u8)> {
    match seat {
        0 => None,
        some => Some(((some - 1) / INDEXES, (some - 1) % INDEXES)),
    }
}

impl Pod {
    /// Owned by the anchor of its revision.
    pub const ANCHOR: u8 = 4;
    /// Owned by the Pool: only in a mutation.
    pub const POOL: u8 = 5;

    /// A new, clean Pod.
    #[must_use]
    pub const fn new(slot: u8, owner: u8) -> Self {
        Self(0).with_life(Life::Alive).with_warm(1).with_watched(1).with_owner(owner).with_slot(slot)
    }

    /// How far on its way out.
    #[must_use]
    pub const fn life(self) -> Life {
        Life::from_code(self.life_code())
    }

    /// With another life.
    #[must_use]
    pub const fn with_life(self, life: Life) -> Self {
        self.with_life_code(life.code())
    }

    /// The claim that owns it.
    #[must_use]
    pub const fn claim_owner(self) -> Option<u8> {
        match self.owner() {
            owner @ 1..=CLAIMS => Some(owner - 1),
            _ => None,
        }
    }

    /// The claim and index that its labels, or else its owner, name: as production reads it.
    #[must_use]
    pub const fn held_by(self) -> Option<(u8, u8)> {
        match (seated(self.label()), self.claim_owner()) {
            (Some(seat), _) => Some(seat),
            (None, Some(owner)) => Some((owner, 0)),
            (None, None) => None,
        }
    }

    /// Without what only a store knows.
    #[must_use]
    pub const fn bare(self) -> Self {
        self.with_current(0).with_confirmed(0)
    }

    /// Its life in the words of the protocol.
    #[must_use]
    pub const fn as_protocol(self) -> PodLife {
        match self.life() {
            Life::None | Life::Alive => PodLife::Alive,
            Life::Ending => PodLife::Terminal,
            Life::Terminating => PodLife::Terminating,
            Life::Gone => PodLife::Gone,
        }
    }
}

/// One claim, as [`Pod`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim(pub u32);

fields!(Claim(u32) {
    /// [`Life`] as a number.
    life_code with_life_code 0 + 3;
    /// How many sandboxes it wants.
    replicas with_replicas 3 + 2;
    /// Its first slot, see [`Named`].
    slot0 with_slot0 5 + 4;
    /// Its second.
    slot1 with_slot1 9 + 4;
    /// Its status says that the Pool is gone.
    told with_told 13 + 1;
    /// Its deadline has passed.
    due with_due 14 + 1;
    /// In a store: this is the server's newest version.
    current with_current 15 + 1;
    /// In a store: the still-mine rule holds for this version.
    confirmed with_confirmed 16 + 1;
});

/// A slot of a claim's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// No Pod.
    Open,
    /// This one.
    Pod(u8),
    /// This one was lost.
    Lost(u8),
    /// This one was promised and died before it was delivered.
    Undelivered(u8),
}

impl Named {
    const fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Pod(pod) => 1 + pod,
            Self::Lost(pod) => 1 + PODS + pod,
            Self::Undelivered(pod) => 1 + 2 * PODS + pod,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Open,
            pod @ 1..=PODS => Self::Pod(pod - 1),
            code if code <= 2 * PODS => Self::Lost(code - 1 - PODS),
            code => Self::Undelivered(code - 1 - 2 * PODS),
        }
    }
}

impl Claim {
    /// A claim for so many sandboxes.
    #[must_use]
    pub const fn new(replicas: u8) -> Self {
        Self(0).with_life(Life::Alive).with_replicas(replicas)
    }

    /// How far on its way out.
    #[must_use]
    pub const fn life(self) -> Life {
        Life::from_code(self.life_code())
    }

    /// With another life.
    #[must_use]
    pub const fn with_life(self, life: Life) -> Self {
        self.with_life_code(life.code())
    }

    /// The slot of an index.
    #[must_use]
    pub const fn slot(self, index: u8) -> Named {
        Named::from_code(if index == 0 { self.slot0() } else { self.slot1() })
    }

    /// With that slot.
    #[must_use]
    pub const fn with_slot(self, index: u8, slot: Named) -> Self {
        if index == 0 { self.with_slot0(slot.code()) } else { self.with_slot1(slot.code()) }
    }

    /// The index at which it names a Pod.
    #[must_use]
    pub fn names(self, pod: u8) -> Option<u8> {
        (0..INDEXES).find(|index| self.slot(*index) == Named::Pod(pod))
    }

    /// Without what only a store knows.
    #[must_use]
    pub const fn bare(self) -> Self {
        self.with_current(0).with_confirmed(0)
    }

    /// What a write of its status replaces.
    pub const STATUS: u32 = Self(0).with_slot0(15).with_slot1(15).with_told(1).0;
}

/// The Pool. Its ledger is one number for each Pod: 0 none, a seat, or [`Pool::RETIRING`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool(pub u32);

fields!(Pool(u32) {
    /// [`Life`] as a number.
    life_code with_life_code 0 + 3;
    /// Of the server: 0 never written, 1.. a process, [`Pool::DEAD`]. In a store: see [`Pool::MINE`].
    holder with_holder 3 + 2;
    /// In a store: this is the server's newest version.
    current with_current 17 + 1;
    /// Its anchor exists.
    anchor with_anchor 18 + 1;
});

impl Pool {
    /// The ledger's word for a retirement.
    pub const RETIRING: u8 = 7;
    /// Of the server: the token of a process that is no more.
    pub const DEAD: u8 = 3;
    /// In a store: our token.
    pub const MINE: u8 = 1;
    /// In a store: another's.
    pub const FOREIGN: u8 = 2;
    /// What a write of its status replaces, beside the holder.
    pub const LEDGER: u32 = 0xfff << 5;

    /// How far on its way out.
    #[must_use]
    pub const fn life(self) -> Life {
        Life::from_code(self.life_code())
    }

    /// With another life.
    #[must_use]
    pub const fn with_life(self, life: Life) -> Self {
        self.with_life_code(life.code())
    }

    /// The ledger's word on a Pod.
    #[must_use]
    pub const fn entry(self, pod: u8) -> u8 {
        ((self.0 >> (5 + 3 * pod)) & 7) as u8
    }

    /// With another word on a Pod.
    #[must_use]
    pub const fn with_entry(self, pod: u8, entry: u8) -> Self {
        let at = 5 + 3 * pod;
        Self((self.0 & !(7 << at)) | ((entry as u32) << at))
    }

    /// The claim and index to which the ledger promises a Pod.
    #[must_use]
    pub const fn granted(self, pod: u8) -> Option<(u8, u8)> {
        match self.entry(pod) {
            Self::RETIRING => None,
            entry => seated(entry),
        }
    }
}

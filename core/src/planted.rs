//! Historical bugs that can be switched on at run time, to prove that the simulator finds them.
//!
//! Without the feature `planted-bugs` the set is empty by construction: [`PlantedSet::has`] is `false` at compile time and
//! no release carries a bug. Each entry names its catalogue id and the rule it breaks.

/// A bug that somebody's log really had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Planted {
    /// The ISR grows on a high watermark that is older than the leader epoch.
    B01,
    /// A log that begins anew keeps a high watermark below its start.
    B03,
    /// A removal from the ISR that is still in flight no longer holds the high watermark back.
    B04,
    /// The high watermark moves although the ISR is below `min.insync.replicas`.
    B05,
    /// A fetch of an earlier incarnation proves a follower in sync.
    B06,
    /// Consumers see records above the high watermark.
    B09,
    /// A new leader answers with a high watermark from before its epoch.
    B10,
    /// What a leader knows of a follower never moves back, whatever the follower lost.
    B11,
    /// A follower cuts its log at its own high watermark.
    B13,
    /// Logs of equal length are taken for equal.
    B14,
    /// The end of an epoch that the follower never had is used as it is.
    B15,
    /// Epoch questions are answered whatever epoch the asker is in.
    B17,
    /// A new leader does not note where its epoch begins.
    B18,
    /// A fenced or stopping broker may join the in-sync set or be elected.
    B19,
    /// Any replica is elected when no in-sync one lives, whatever the topic's configs say.
    B20,
    /// The controller takes every restart for a clean one.
    B21,
    /// A vote is answered before it is durable.
    B23,
    /// A vote is forgotten by going back to asking for pre-votes in the same epoch.
    B24,
    /// A candidate's log is judged by its epoch alone, however short it is.
    B26,
    /// A leader commits entries of older epochs by counting copies.
    B27,
    /// A follower takes the leader's commit index before it knows that its log is the leader's.
    B29,
    /// A fetch from a diverging log counts as progress.
    B30,
    /// A copy counts, and the client is answered, before its own fsync.
    B33,
    /// State is saved in the wrong order: what refers to data is durable before the data.
    B34,
    /// The metadata log is removed as time goes by, whether a snapshot holds it or not.
    B36,
    /// A failed fsync is retried and believed.
    B43,
    /// A new file or a rename is relied on before its folder is synced.
    B44,
    /// The clean-shutdown marker survives a later change of a segment and is trusted at every start.
    B45,
    /// Recovery moves the recovery point over bytes that it never synced.
    B46,
    /// Damage in the middle is treated like a torn tail and cut.
    B47,
    /// A controller that was deposed fences a leader that is ahead of it.
    B74,
    /// What belongs to a partition is asked before the metadata are there: all logs are put aside as strays.
    B76,
    /// A log is taken for that of a topic by its name, whichever id it bears.
    B77,
    /// A follower that does not know an offset yet says that it is out of range.
    B80,
}

impl Planted {
    /// All bugs that can be planted.
    pub const ALL: [Self; 34] = [
        Self::B01,
        Self::B03,
        Self::B04,
        Self::B05,
        Self::B06,
        Self::B09,
        Self::B10,
        Self::B11,
        Self::B13,
        Self::B14,
        Self::B15,
        Self::B17,
        Self::B18,
        Self::B19,
        Self::B20,
        Self::B21,
        Self::B23,
        Self::B24,
        Self::B26,
        Self::B27,
        Self::B29,
        Self::B30,
        Self::B33,
        Self::B34,
        Self::B36,
        Self::B43,
        Self::B44,
        Self::B45,
        Self::B46,
        Self::B47,
        Self::B74,
        Self::B76,
        Self::B77,
        Self::B80,
    ];

    /// Returns the catalogue id.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::B01 => "B01",
            Self::B03 => "B03",
            Self::B04 => "B04",
            Self::B05 => "B05",
            Self::B06 => "B06",
            Self::B09 => "B09",
            Self::B10 => "B10",
            Self::B11 => "B11",
            Self::B13 => "B13",
            Self::B14 => "B14",
            Self::B15 => "B15",
            Self::B17 => "B17",
            Self::B18 => "B18",
            Self::B19 => "B19",
            Self::B20 => "B20",
            Self::B21 => "B21",
            Self::B23 => "B23",
            Self::B24 => "B24",
            Self::B26 => "B26",
            Self::B27 => "B27",
            Self::B29 => "B29",
            Self::B30 => "B30",
            Self::B33 => "B33",
            Self::B34 => "B34",
            Self::B36 => "B36",
            Self::B43 => "B43",
            Self::B44 => "B44",
            Self::B45 => "B45",
            Self::B46 => "B46",
            Self::B47 => "B47",
            Self::B74 => "B74",
            Self::B76 => "B76",
            Self::B77 => "B77",
            Self::B80 => "B80",
        }
    }
}

/// The bugs switched on in one broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedSet {
    #[cfg(feature = "planted-bugs")]
    bits: u64,
}

impl PlantedSet {
    /// No bug: the only set of a release.
    pub const NONE: Self = Self {
        #[cfg(feature = "planted-bugs")]
        bits: 0,
    };

    /// Makes the set that holds one bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub const fn only(bug: Planted) -> Self {
        Self {
            bits: 1 << bug as u8,
        }
    }

    /// Returns whether a bug is switched on.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub const fn has(self, bug: Planted) -> bool {
        self.bits & (1 << bug as u8) != 0
    }

    /// Returns whether a bug is switched on: never, without the feature.
    #[cfg(not(feature = "planted-bugs"))]
    #[must_use]
    pub const fn has(self, _bug: Planted) -> bool {
        false
    }
}

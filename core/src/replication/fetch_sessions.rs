//! Fetch sessions at the serving side (KIP-227): what each session reads, and which of it is worth looking at.
//!
//! A request of a session names only what changed, and an answer only what is new. Beyond Kafka, a partition is looked at
//! only when there may be something: its request changed, the partition moved ([`FetchSessions::changed`]), or the last
//! answer had records or an error. What is at rest costs nothing, however large the session is.
//!
//! | request | leads to |
//! | --- | --- |
//! | epoch -1 | no session; one that is named ends |
//! | epoch 0 | a new session, if there is a place or a less valuable one to evict; one that is named ends |
//! | the session's epoch | the session goes on with the next epoch |
//! | any other epoch, or no such session | an error; the client begins anew |

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{ids::Offset, time::Instant};

/// The epoch that asks for a new session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch that asks for none.
const FINAL_EPOCH: i32 = -1;
/// `max.incremental.fetch.session.cache.slots`.
const SLOTS_MAX: usize = 1_000;
/// `min.incremental.fetch.session.eviction.ms`: a session younger or used since is not evicted for a larger one.
const EVICTION_MS: u64 = 120_000;
/// How many ids are drawn before a request is served without a session.
const DRAWS_MAX: u32 = 64;

/// What a Fetch request says of sessions; `K` names a partition as the request does, `W` is what is wanted of it.
#[derive(Clone, Debug)]
pub struct SessionRequest<K, W> {
    /// The session, or 0.
    pub session_id: i32,
    /// Its epoch.
    pub session_epoch: i32,
    /// Whether a follower asks: its sessions are evicted last.
    pub is_follower: bool,
    /// Whether topics are named by id, from version 13; a session keeps to one way.
    pub by_topic_id: bool,
    /// What to read, in the order of the request.
    pub wanted: Vec<(K, W)>,
    /// What to drop.
    pub forgotten: Vec<K>,
}

/// Why a request cannot go on with its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// FETCH_SESSION_ID_NOT_FOUND.
    #[error("there is no such fetch session")]
    NotFound,
    /// INVALID_FETCH_SESSION_EPOCH.
    #[error("the fetch session is at another epoch")]
    InvalidEpoch,
    /// FETCH_SESSION_TOPIC_ID_ERROR.
    #[error("the fetch session names topics in another way")]
    TopicId,
}

/// How a request is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchContext<K, W> {
    /// All that the request names, and nothing is remembered.
    Sessionless(Vec<(K, W)>),
    /// All that the request names; a session begins if there is a place for it.
    Full {
        /// What the request names.
        wanted: Vec<(K, W)>,
        /// Whether a follower asks.
        is_follower: bool,
        /// Whether topics are named by id.
        by_topic_id: bool,
    },
    /// What is due of a session.
    Incremental {
        /// The session.
        session_id: i32,
    },
}

/// What was read of one partition, as far as a session has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPartition {
    /// The high watermark of the answer, -1 with an error.
    pub high_watermark: Offset,
    /// The log start of the answer, -1 with an error.
    pub log_start: Offset,
    /// Whether there are records.
    pub has_records: bool,
    /// Whether there is anything that the reader must see in any case: an error, a diverging epoch, a preferred replica.
    pub is_telling: bool,
}

/// How an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAnswer {
    /// The session to name in the answer, or 0.
    pub session_id: i32,
    /// Of each partition that was read, whether the answer contains it.
    pub included: Vec<bool>,
}

#[derive(Debug)]
struct Entry<W> {
    wanted: W,
    high_watermark: Offset,
    log_start: Offset,
    is_due: bool,
}

#[derive(Debug)]
struct Session<K, W> {
    epoch: i32,
    is_follower: bool,
    by_topic_id: bool,
    created: Instant,
    last_used: Instant,
    entries: BTreeMap<K, Entry<W>>,
    /// What is to be looked at, the longest waiting first. May name what is gone or no longer due.
    due: VecDeque<K>,
    /// The size under which it stands in the evictable sets.
    listed_size: usize,
}

/// Follower or not, size, id: the least is evicted first.
type Value = (bool, usize, i32);

/// All sessions.
#[derive(Debug)]
pub struct FetchSessions<K, W> {
    sessions: BTreeMap<i32, Session<K, W>>,
    last_used: BTreeSet<(Instant, i32)>,
    /// Sessions that a follower's new one may take the place of.
    for_followers: BTreeSet<Value>,
    /// Sessions that anybody's may.
    for_all: BTreeSet<Value>,
    watchers: BTreeMap<K, BTreeSet<i32>>,
    slots_max: usize,
}

impl<K: Ord + Clone, W: Clone + PartialEq> Default for FetchSessions<K, W> {
    fn default() -> Self {
        Self::new(SLOTS_MAX)
    }
}

impl<K: Ord + Clone, W: Clone + PartialEq> FetchSessions<K, W> {
    /// Makes a cache with this many places.
    #[must_use]
    pub const fn new(slots_max: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            last_used: BTreeSet::new(),
            for_followers: BTreeSet::new(),
            for_all: BTreeSet::new(),
            watchers: BTreeMap::new(),
            slots_max,
        }
    }

    /// Returns how many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Begins to serve a request.
    ///
    /// # Errors
    /// Says why the client has to begin anew.
    pub fn begin(
        &mut self,
        now: Instant,
        request: SessionRequest<K, W>,
    ) -> Result<FetchContext<K, W>, SessionError> {
        let id = request.session_id;
        if matches!(request.session_epoch, INITIAL_EPOCH | FINAL_EPOCH) {
            self.remove(id);
            let wanted = request.wanted;
            return Ok(if request.session_epoch == FINAL_EPOCH {
                FetchContext::Sessionless(wanted)
            } else {
                FetchContext::Full {
                    wanted,
                    is_follower: request.is_follower,
                    by_topic_id: request.by_topic_id,
                }
            });
        }
        let session = self.sessions.get_mut(&id).ok_or(SessionError::NotFound)?;
        if session.epoch != request.session_epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if session.by_topic_id != request.by_topic_id {
            return Err(SessionError::TopicId);
        }
        session.epoch = next_epoch(session.epoch);
        for key in request.forgotten {
            if session.entries.remove(&key).is_some() {
                unwatch(&mut self.watchers, &key, id);
            }
        }
        for (key, wanted) in request.wanted {
            self.watchers.entry(key.clone()).or_default().insert(id);
            session.want(key, wanted);
        }
        if session.entries.is_empty() {
            self.remove(id);
            return Ok(FetchContext::Sessionless(Vec::new()));
        }
        self.touch(now, id);
        Ok(FetchContext::Incremental { session_id: id })
    }

    /// Returns what is to be read for a request now, in order: for a session that waits, whenever it is looked at again.
    #[must_use]
    pub fn due(&self, context: &FetchContext<K, W>) -> Vec<(K, W)> {
        match context {
            FetchContext::Sessionless(wanted) | FetchContext::Full { wanted, .. } => wanted.clone(),
            FetchContext::Incremental { session_id } => {
                let Some(session) = self.sessions.get(session_id) else {
                    return Vec::new();
                };
                let due = session.due.iter().filter_map(|key| {
                    let entry = session.entries.get(key).filter(|entry| entry.is_due)?;
                    Some((key.clone(), entry.wanted.clone()))
                });
                due.collect()
            }
        }
    }

    /// Notes that a partition has something new: records, a high watermark, a log start, a leader epoch. The requests of
    /// its [`FetchSessions::watchers`] are to be looked at.
    pub fn changed(&mut self, key: &K) {
        for id in self.watchers.get(key).into_iter().flatten() {
            if let Some(session) = self.sessions.get_mut(id) {
                session.set_due(key);
            }
        }
    }

    /// Notes that a partition has something new for followers: records that are not committed yet.
    pub fn grew(&mut self, key: &K) {
        for id in self.watchers.get(key).into_iter().flatten() {
            if let Some(session) = self.sessions.get_mut(id)
                && session.is_follower
            {
                session.set_due(key);
            }
        }
    }

    /// Returns the sessions that read a partition.
    pub fn watchers(&self, key: &K) -> impl Iterator<Item = i32> {
        self.watchers.get(key).into_iter().flatten().copied()
    }

    /// Ends the serving of a request: remembers what was answered, and says what the answer contains. `read` names what was
    /// read, a part of what was due; `draw` gives random numbers.
    pub fn finish(
        &mut self,
        now: Instant,
        context: FetchContext<K, W>,
        read: &[(K, ReadPartition)],
        draw: impl FnMut() -> i32,
    ) -> SessionAnswer {
        let all = |session_id| SessionAnswer {
            session_id,
            included: vec![true; read.len()],
        };
        match context {
            FetchContext::Sessionless(_) => all(0),
            FetchContext::Full {
                wanted,
                is_follower,
                by_topic_id,
            } => {
                let value = (is_follower, wanted.len());
                let Some(id) = self.place(now, value, draw) else {
                    return all(0);
                };
                let mut session = Session {
                    epoch: next_epoch(INITIAL_EPOCH),
                    is_follower,
                    by_topic_id,
                    created: now,
                    last_used: now,
                    entries: BTreeMap::new(),
                    due: VecDeque::new(),
                    listed_size: 0,
                };
                for (key, wanted) in wanted {
                    self.watchers.entry(key.clone()).or_default().insert(id);
                    session.want(key, wanted);
                }
                session.settle(read);
                self.sessions.insert(id, session);
                self.touch(now, id);
                all(id)
            }
            FetchContext::Incremental { session_id } => {
                let session = self.sessions.get_mut(&session_id);
                session.map_or_else(
                    || all(session_id),
                    |session| SessionAnswer {
                        session_id,
                        included: session.settle(read),
                    },
                )
            }
        }
    }

    /// Finds a place for a session of this value, and an id.
    fn place(
        &mut self,
        now: Instant,
        (is_follower, size): (bool, usize),
        mut draw: impl FnMut() -> i32,
    ) -> Option<i32> {
        if size == 0 {
            return None;
        }
        if self.sessions.len() >= self.slots_max {
            let evicted = self.evictable(now, (is_follower, size, 0))?;
            self.remove(evicted);
        }
        (0..DRAWS_MAX)
            .map(|_| draw() & i32::MAX)
            .find(|id| *id != 0 && !self.sessions.contains_key(id))
    }

    fn evictable(&self, now: Instant, value: Value) -> Option<i32> {
        let (last_used, id) = self.last_used.first().copied()?;
        if last_used.plus_millis(EVICTION_MS) < now {
            return Some(id);
        }
        let candidates = if value.0 {
            &self.for_followers
        } else {
            &self.for_all
        };
        let least = candidates.first().copied()?;
        (value >= least).then_some(least.2)
    }

    /// Notes that a session is used.
    fn touch(&mut self, now: Instant, id: i32) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        self.last_used.remove(&(session.last_used, id));
        session.last_used = now;
        self.last_used.insert((now, id));
        let old = (session.is_follower, session.listed_size, id);
        self.for_followers.remove(&old);
        self.for_all.remove(&old);
        session.listed_size = session.entries.len();
        let value = (session.is_follower, session.listed_size, id);
        let is_old = session.created.plus_millis(EVICTION_MS) < now;
        if !session.is_follower || is_old {
            self.for_followers.insert(value);
        }
        if is_old {
            self.for_all.insert(value);
        }
    }

    fn remove(&mut self, id: i32) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        self.last_used.remove(&(session.last_used, id));
        let value = (session.is_follower, session.listed_size, id);
        self.for_followers.remove(&value);
        self.for_all.remove(&value);
        for key in session.entries.keys() {
            unwatch(&mut self.watchers, key, id);
        }
    }
}

fn unwatch<K: Ord>(watchers: &mut BTreeMap<K, BTreeSet<i32>>, key: &K, id: i32) {
    if let Some(sessions) = watchers.get_mut(key) {
        sessions.remove(&id);
        if sessions.is_empty() {
            watchers.remove(key);
        }
    }
}

const fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MAX => 1,
        epoch => epoch + 1,
    }
}

impl<K: Ord + Clone, W: Clone + PartialEq> Session<K, W> {
    /// Adds a partition, or changes what is wanted of it; either way it is to be looked at.
    fn want(&mut self, key: K, wanted: W) {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            wanted: wanted.clone(),
            high_watermark: -1,
            log_start: -1,
            is_due: false,
        });
        entry.wanted = wanted;
        self.set_due(&key);
    }

    fn set_due(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key)
            && !entry.is_due
        {
            entry.is_due = true;
            self.due.push_back(key.clone());
        }
    }

    /// Takes in what was read and returns what of it the answer contains. What had something goes to the end of the line.
    fn settle(&mut self, read: &[(K, ReadPartition)]) -> Vec<bool> {
        let mut again = Vec::new();
        let mut included = Vec::with_capacity(read.len());
        for (key, read) in read {
            let Some(entry) = self.entries.get_mut(key) else {
                included.push(false);
                continue;
            };
            let moved =
                entry.high_watermark != read.high_watermark || entry.log_start != read.log_start;
            included.push(read.has_records || read.is_telling || moved);
            entry.high_watermark = read.high_watermark;
            entry.log_start = read.log_start;
            if read.has_records || read.is_telling {
                again.push(key.clone());
            }
            entry.is_due = false;
        }
        let entries = &self.entries;
        self.due
            .retain(|key| entries.get(key).is_some_and(|entry| entry.is_due));
        for key in again {
            self.set_due(&key);
        }
        included
    }
}

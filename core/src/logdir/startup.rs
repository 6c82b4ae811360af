//! The start of a log directory: whose it is, whether it was left in good order, and what its checkpoints say.

use bytes::Bytes;

use super::files::{self, MetaProperties};
use crate::{
    planted::{Planted, PlantedSet},
    storage::{
        Completion, DirEntry, FaultKind, FileOp, FilePath, OpId, OpResult, Owner, ReadFile,
        ReadProgress, StorageFault, StorageQueue,
    },
};

/// Larger small files cannot be valid: 100,000 partitions with names of 249 characters fit.
const SMALL_FILE_BYTES_MAX: u32 = 32 * 1024 * 1024;

/// Where `meta.properties` may have been prepared.
const META_PROPERTIES_NEW: &str = "meta.properties.tmp";

/// The folder of the metadata log.
const METADATA_LOG: &str = "__cluster_metadata-0";

/// What some file systems have at their top.
const LOST_AND_FOUND: &str = "lost+found";

const NAMES: [&str; 6] = [
    files::META_PROPERTIES,
    files::CLEAN_SHUTDOWN,
    files::RECOVERY_POINT,
    files::LOG_START,
    files::HIGH_WATERMARK,
    files::SYNCED_MARKS,
];

/// What was found in a log directory.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// `meta.properties`; `None` in a directory that was never used, also where the first start ended while it wrote that file.
    pub meta: Option<MetaProperties>,
    /// Broker epoch of a valid clean-shutdown marker, which is durably gone by now.
    pub clean: Option<i64>,
    /// Raw checkpoint of recovery points.
    pub recovery_points: Option<Bytes>,
    /// Raw checkpoint of log starts.
    pub log_starts: Option<Bytes>,
    /// Raw checkpoint of high watermarks.
    pub high_watermarks: Option<Bytes>,
    /// Raw synced marks.
    pub synced_marks: Option<Bytes>,
    /// Everything in the directory.
    pub entries: Vec<DirEntry>,
}

/// Why a log directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The storage failed.
    #[error("{path}: {fault}")]
    Fault {
        /// What was read or written.
        path: FilePath,
        /// How it failed.
        fault: StorageFault,
    },
    /// `meta.properties` is damaged.
    #[error(transparent)]
    Meta(#[from] files::MetaError),
    /// A small file is larger than any valid one.
    #[error("{path} is too large to be valid")]
    TooLarge {
        /// The file.
        path: FilePath,
    },
}

#[derive(Debug)]
enum Step {
    Listing(OpId),
    Reading {
        files: Vec<(usize, ReadFile)>,
        contents: [Option<Bytes>; NAMES.len()],
    },
    RemovingMarker(OpId),
    SyncingRemoval(OpId),
    Done,
}

/// The machine that reads a log directory at start.
///
/// The clean marker is removed, and its removal synced, before anything else may be written (catalogue B45): a crash after
/// the first write must not look like a clean shutdown.
#[derive(Debug)]
pub struct Startup {
    owner: Owner,
    root: FilePath,
    planted: PlantedSet,
    /// Whether this node is its own whole quorum, and so may have begun its metadata log beside its identity.
    is_alone: bool,
    step: Step,
    found: Found,
}

impl Startup {
    /// Starts to read the directory.
    pub fn start(
        storage: &mut StorageQueue,
        owner: Owner,
        root: FilePath,
        planted: PlantedSet,
        is_alone: bool,
    ) -> Self {
        let list = storage.submit(owner, FileOp::List { dir: root.clone() });
        Self {
            owner,
            root,
            planted,
            is_alone,
            step: Step::Listing(list),
            found: Found::default(),
        }
    }

    /// Takes a completion; returns what was found once the marker is durably gone.
    ///
    /// # Errors
    /// The directory cannot be used, for the reason given.
    pub fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<Option<Found>, StartError> {
        match &mut self.step {
            Step::Listing(op) if *op == completion.id => self.on_listing(storage, completion),
            Step::Reading { .. } => self.on_read(storage, completion),
            Step::RemovingMarker(op) if *op == completion.id => {
                match completion.result {
                    Ok(_)
                    | Err(StorageFault {
                        kind: FaultKind::NotFound,
                        ..
                    }) => {}
                    Err(fault) => return Err(self.fault(files::CLEAN_SHUTDOWN, fault)),
                }
                let sync = FileOp::Sync {
                    files: vec![],
                    dirs: vec![self.root.clone()],
                };
                self.step = Step::SyncingRemoval(storage.submit(self.owner, sync));
                Ok(None)
            }
            Step::SyncingRemoval(op) if *op == completion.id => {
                completion
                    .result
                    .map_err(|fault| self.fault(files::CLEAN_SHUTDOWN, fault))?;
                Ok(Some(self.finish()))
            }
            Step::Listing(_) | Step::RemovingMarker(_) | Step::SyncingRemoval(_) | Step::Done => {
                Ok(None)
            }
        }
    }

    fn on_listing(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<Option<Found>, StartError> {
        match completion.result {
            Ok(OpResult::Listing(entries)) => self.found.entries = entries,
            Ok(_) => {}
            Err(fault) => return Err(self.fault("", fault)),
        }
        let present = |name: &str| self.found.entries.iter().any(|entry| entry.name == name);
        let reads: Vec<_> = NAMES
            .iter()
            .enumerate()
            .filter(|(_, name)| present(name))
            .map(|(at, name)| {
                let path = self.root.join(name);
                (
                    at,
                    ReadFile::start(storage, self.owner, path, SMALL_FILE_BYTES_MAX),
                )
            })
            .collect();
        if reads.is_empty() {
            return Ok(Some(self.finish()));
        }
        self.step = Step::Reading {
            files: reads,
            contents: Default::default(),
        };
        Ok(None)
    }

    fn on_read(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<Option<Found>, StartError> {
        let Step::Reading {
            files: reads,
            contents,
        } = &mut self.step
        else {
            return Ok(None);
        };
        let Some(at) = reads
            .iter()
            .position(|(_, read)| read.awaits(completion.id))
        else {
            return Ok(None);
        };
        let (name, read) = &mut reads[at];
        let name = *name;
        match read.on_completion(storage, completion) {
            Ok(ReadProgress::Pending) => return Ok(None),
            Ok(ReadProgress::Missing) => {}
            Ok(ReadProgress::Content(bytes)) => contents[name] = Some(bytes),
            Ok(ReadProgress::TooLarge) => {
                return Err(StartError::TooLarge {
                    path: self.root.join(NAMES[name]),
                });
            }
            Err(fault) => return Err(self.fault(NAMES[name], fault)),
        }
        reads.swap_remove(at);
        if !reads.is_empty() {
            return Ok(None);
        }
        let [
            meta,
            marker,
            recovery_points,
            log_starts,
            high_watermarks,
            synced_marks,
        ] = std::mem::take(contents);
        self.found.meta = match meta.as_deref().map(MetaProperties::parse) {
            Some(Ok(meta)) => Some(meta),
            // The first start ended while it wrote the file: nothing was built on it but, perhaps, a metadata log that was not
            // founded either, which its own start sees to.
            Some(Err(_)) if self.holds_nothing_else() => None,
            Some(Err(error)) => return Err(error.into()),
            None => None,
        };
        self.found.recovery_points = recovery_points;
        self.found.log_starts = log_starts;
        self.found.high_watermarks = high_watermarks;
        self.found.synced_marks = synced_marks;
        let Some(marker) = marker else {
            return Ok(Some(self.finish()));
        };
        self.found.clean = files::parse_clean_shutdown(&marker);
        if self.planted.has(Planted::B45) {
            return Ok(Some(self.finish()));
        }
        let remove = FileOp::Remove {
            path: self.root.join(files::CLEAN_SHUTDOWN),
        };
        self.step = Step::RemovingMarker(storage.submit(self.owner, remove));
        Ok(None)
    }

    /// Returns whether the directory holds nothing that this node, or an earlier one, has put there after `meta.properties`, or
    /// beside it.
    fn holds_nothing_else(&self) -> bool {
        let is_nothing = |name: &str| {
            matches!(
                name,
                files::META_PROPERTIES | META_PROPERTIES_NEW | LOST_AND_FOUND
            ) || (self.is_alone && name == METADATA_LOG)
        };
        self.found
            .entries
            .iter()
            .all(|entry| is_nothing(&entry.name))
    }

    fn finish(&mut self) -> Found {
        self.step = Step::Done;
        std::mem::take(&mut self.found)
    }

    fn fault(&self, name: &str, fault: StorageFault) -> StartError {
        let path = if name.is_empty() {
            self.root.clone()
        } else {
            self.root.join(name)
        };
        StartError::Fault { path, fault }
    }
}

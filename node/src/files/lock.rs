//! One process per log directory.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Name of the lock file in a log directory; Kafka's own, so that the two keep out of each other's folders.
pub(crate) const LOCK_FILE: &str = ".lock";

/// A log directory that this process alone uses; released when dropped or when the process ends in any way.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// Why a log directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogDirError {
    /// The folder cannot be created.
    #[error("cannot create the log directory {}: {cause}; create it, or name another one by log.dirs", .dir.display())]
    Create {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The lock file cannot be made.
    #[error("cannot lock the log directory {}: {cause}; this user needs to be able to write there", .dir.display())]
    Lock {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Another process uses the folder.
    #[error(
        "the log directory {} is in use by another process; stop that one, or give this one its own folder",
        .dir.display()
    )]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
}

impl DirLock {
    /// Creates the folder when it is missing and takes its lock; appends to `unsynced` the folders in which new entries made
    /// it: the core syncs entries below its log directories, but cannot sync the entry that is one.
    pub(crate) fn take(dir: &Path, unsynced: &mut Vec<PathBuf>) -> Result<Self, LogDirError> {
        let missing = dir
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        unsynced.extend(missing.map(|folder| match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        }));
        fs::create_dir_all(dir).map_err(|cause| LogDirError::Create {
            dir: dir.to_owned(),
            cause,
        })?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join(LOCK_FILE))
            .map_err(|cause| LogDirError::Lock {
                dir: dir.to_owned(),
                cause,
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LogDirError::InUse {
                dir: dir.to_owned(),
            }),
            Err(TryLockError::Error(cause)) => Err(LogDirError::Lock {
                dir: dir.to_owned(),
                cause,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_directory_serves_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("data/a");
        let mut unsynced = Vec::new();
        let first = DirLock::take(&nested, &mut unsynced).unwrap();
        assert_eq!(unsynced, [dir.path().join("data"), dir.path().to_owned()]);
        unsynced.clear();
        let refused = DirLock::take(&nested, &mut unsynced).unwrap_err();
        assert!(matches!(refused, LogDirError::InUse { .. }), "{refused}");
        drop(first);
        DirLock::take(&nested, &mut unsynced).unwrap();
        assert!(unsynced.is_empty(), "nothing was created");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        fs::write(&path, b"").unwrap();
        let refused = DirLock::take(&path, &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("log.dirs"), "{refused}");
    }
}

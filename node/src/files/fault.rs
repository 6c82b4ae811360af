//! What an error of the operating system means to the core.

use std::io;

use rustix::io::Errno;
use seedlog_core::storage::{FaultKind, StorageFault};

/// Translates an error of the operating system.
pub(crate) fn fault(error: &io::Error) -> StorageFault {
    let Some(os_code) = error.raw_os_error() else {
        return StorageFault::new(match error.kind() {
            io::ErrorKind::NotFound => FaultKind::NotFound,
            _ => FaultKind::Io,
        });
    };
    let kind = match Errno::from_raw_os_error(os_code) {
        Errno::NOENT | Errno::NOTDIR => FaultKind::NotFound,
        Errno::NOSPC | Errno::DQUOT => FaultKind::NoSpace,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FaultKind::Denied,
        _ => FaultKind::Io,
    };
    StorageFault { kind, os_code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_the_core_decides_by_keep_their_kind() {
        for (errno, kind) in [
            (Errno::NOENT, FaultKind::NotFound),
            (Errno::NOSPC, FaultKind::NoSpace),
            (Errno::DQUOT, FaultKind::NoSpace),
            (Errno::ACCESS, FaultKind::Denied),
            (Errno::PERM, FaultKind::Denied),
            (Errno::ROFS, FaultKind::Denied),
            (Errno::IO, FaultKind::Io),
            (Errno::NOTEMPTY, FaultKind::Io),
        ] {
            let seen = fault(&io::Error::from(errno));
            assert_eq!(seen.kind, kind, "{errno:?}");
            assert_eq!(seen.os_code, errno.raw_os_error());
        }
    }

    #[test]
    fn an_error_without_a_number_is_the_devices_fault() {
        let seen = fault(&io::Error::from(io::ErrorKind::WriteZero));
        assert_eq!(seen, StorageFault::new(FaultKind::Io));
    }
}

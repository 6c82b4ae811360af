//! Catches a panic of the machine under test and keeps its message, without noise on the terminal.

use std::{
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic in it becomes its message and place.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if GUARDED.get() {
                MESSAGE.with_borrow_mut(|message| *message = Some(info.to_string()));
            } else {
                usual(info);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.map_err(|_| {
        MESSAGE
            .with_borrow_mut(Option::take)
            .unwrap_or_else(|| "panicked without a message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_its_message() {
        assert_eq!(guard(|| 7), Ok(7));
        let message = guard(|| panic!("high watermark past the log end")).unwrap_err();
        assert!(message.contains("high watermark past the log end"));
        assert!(
            message.contains("guard.rs"),
            "the place is named: {message}"
        );
    }
}

//! The `seedlog` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    seedlog::cli::main()
}

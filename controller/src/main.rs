//! The operator's process.

use std::process::ExitCode;

use sandbox_controller::flags::Flags;
use sandbox_controller::{log, run};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::from_args(std::env::args_os()) {
        Ok(flags) => flags,
        // Help and version come this way, too, and are no failure.
        Err(error) => error.exit(),
    };
    if let Err(error) = log::init(&flags) {
        tracing::error!("{error:#}");
        return ExitCode::FAILURE;
    }
    end_on_panic();
    match run::run(flags).await {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A panic in any task ends the process: half a state is worse than a restart.
fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::exit(101);
    }));
}

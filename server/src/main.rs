//! `opensandbox-server`: see the library.

use clap::Parser as _;
use sandbox_server::cli::Args;
use sandbox_server::run;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let args = Args::parse();
    match run::run(args).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            // The log may not be up yet, and this is for the person who started the server.
            eprintln!("opensandbox-server: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

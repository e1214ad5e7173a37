//! Works while this replica leads, and hands over on SIGTERM.

use std::time::Duration;

use baton_sidecar::{Baton, Lead, Lost};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let baton = Baton::new();
    let lead = tokio::select! {
        lead = baton.leading("scheduler") => lead?,
        _ = terminated.recv() => return Ok(()),
    };
    tokio::select! {
        worked = lead.run(work(&lead)) => println!("{worked:?}"),
        _ = terminated.recv() => println!("terminated"),
    }
    lead.leave().await;
    Ok(())
}

async fn work(lead: &Lead) -> Result<(), Lost> {
    loop {
        println!("acting with token {}", lead.token()?);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

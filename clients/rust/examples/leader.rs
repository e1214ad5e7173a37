//! Works while this replica leads, and says why it has stopped.

use std::time::Duration;

use baton_sidecar::{Baton, Error, Lead, Lost};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let baton = Baton::new();
    loop {
        let lead = baton.leading("scheduler").await?;
        let worked = lead.run(work(&lead)).await;
        lead.leave().await;
        println!("{worked:?}");
    }
}

async fn work(lead: &Lead) -> Result<(), Lost> {
    loop {
        println!("acting with token {}", lead.token()?);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

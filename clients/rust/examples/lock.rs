//! Works under a lock, if others let it go within 5 s.

use std::time::Duration;

use baton_sidecar::{Baton, Error, Lock, Lost};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let baton = Baton::new();
    match baton.lock("order-42").owner("worker-7").wait(Duration::from_secs(5)).await {
        Ok(lock) => {
            let worked = lock.run(work(&lock)).await;
            lock.release().await;
            println!("{worked:?}");
            Ok(())
        }
        Err(Error::Held { holder, .. }) => {
            println!("others work on it: {holder:?}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn work(lock: &Lock) -> Result<(), Lost> {
    println!("acting with token {}", lock.token()?);
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("still acting with token {}", lock.token()?);
    Ok(())
}

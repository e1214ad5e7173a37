//! `baton run`: the sidecar.

use std::path::Path;
use std::sync::Arc;

use baton::app;
use baton::config::Environment;

use super::{Code, init_logging, load, runtime};

/// Runs the sidecar to its end.
pub fn run(path: &Path) -> Code {
    let environment = Arc::new(Environment::process());
    let started = load(path, &environment).and_then(|loaded| {
        init_logging(loaded.config.log())?;
        let runtime = runtime()?;
        let ended = runtime.block_on(app::run(path.to_owned(), loaded, environment));
        // A name that is still being resolved must not hold the end up.
        runtime.shutdown_background();
        Ok(ended)
    });
    match started {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(error)) => {
            tracing::error!(%error, "baton cannot start");
            error.exit().into()
        }
        Err(code) => code,
    }
}

//! The calls of locks, as they are plugged into the app's listener.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::{Method, Response};

use super::desk::LockDesk;
use super::hold::{Hold, HoldState};
use super::{shapes, words};
use crate::base::clock::SharedClock;
use crate::http::{Ask, Calls, Content, Problem, ProblemKind, no_content};

/// Every path of locks with its methods, as `Allow` lists them. `openapi.yaml` has the same; a test compares.
pub const ROUTES: [(&str, &str); 4] = [
    ("/locks", "GET, POST"),
    ("/locks/{name}", "GET, POST"),
    ("/locks/{name}/hold", "GET"),
    ("/locks/{name}/{id}", "PUT, DELETE"),
];

/// How many locks are looked at at once to list them.
const READS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Several,
    One(&'a str),
    Hold(&'a str),
    Granted(&'a str, &'a str),
}

impl<'a> Route<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix("/locks")?.split('/');
        let found = match (segments.next()?, segments.next(), segments.next()) {
            ("", None, _) => Self::Several,
            ("", Some(name), None) => Self::One(name),
            ("", Some(name), Some("hold")) => Self::Hold(name),
            ("", Some(name), Some(id)) => Self::Granted(name, id),
            _ => return None,
        };
        segments.next().is_none().then_some(found)
    }

    fn allow(self) -> &'static str {
        match self {
            Self::Several | Self::One(_) => "GET, POST",
            Self::Hold(_) => "GET",
            Self::Granted(..) => "PUT, DELETE",
        }
    }
}

/// The calls, over a desk, or the reason why there is none.
#[derive(Debug)]
pub struct LockCalls {
    desk: Result<Arc<LockDesk>, &'static str>,
    clock: SharedClock,
}

impl LockCalls {
    /// Calls that are answered by this desk.
    pub fn new(desk: Arc<LockDesk>, clock: SharedClock) -> Self {
        Self { desk: Ok(desk), clock }
    }

    /// Calls that are all refused, for this reason.
    pub fn disabled(reason: &'static str, clock: SharedClock) -> Self {
        Self { desk: Err(reason), clock }
    }
}

#[async_trait]
impl Calls for LockCalls {
    fn allow(&self, path: &str) -> Option<&'static str> {
        Route::find(path).map(Route::allow)
    }

    async fn answer(&self, ask: Ask) -> Result<Response<Content>, Problem> {
        let desk = self.desk.as_ref().map_err(|reason| Problem::new(ProblemKind::LocksDisabled, *reason))?;
        let Some(route) = Route::find(&ask.path) else {
            return Err(Problem::new(ProblemKind::UnknownPath, "there is nothing here"));
        };
        let settings = desk.settings();
        match (route, ask.method) {
            (Route::Several, Method::GET) => self.list(desk, words::limit(&ask.query)?).await,
            (Route::Several, _) => self.acquire(desk, words::want_several(&ask.body, settings)?).await,
            (Route::One(name), Method::POST) => {
                self.acquire(desk, words::want_one(words::name(name)?, &ask.body, settings)?).await
            }
            (Route::One(name), _) => {
                let name = words::name(name)?;
                let insight = desk.inspect(name.clone()).await.map_err(shapes::refused)?;
                Ok(shapes::insight(&name, &insight))
            }
            (Route::Hold(name), _) => {
                let want = words::want_held(words::name(name)?, &ask.query, settings)?;
                let hold = desk.hold(want).await.map_err(shapes::refused)?;
                Ok(shapes::lines(Content::Stream(Box::pin(self.tell(hold)))))
            }
            (Route::Granted(name, id), Method::PUT) => {
                let (name, id) = (words::name(name)?, words::id(id)?);
                let lease = words::new_lease(&ask.body, settings)?;
                let extended = desk.extend(name, id, lease).await.map_err(shapes::refused)?;
                Ok(shapes::extended(extended, self.clock.now()))
            }
            (Route::Granted(name, id), _) => {
                let (name, id) = (words::name(name)?, words::id(id)?);
                desk.release(name, id).await.map_err(shapes::not_released)?;
                Ok(no_content())
            }
        }
    }
}

/// What a hold has told of itself so far.
enum Told {
    Nothing,
    Grant,
    All,
}

impl LockCalls {
    async fn acquire(&self, desk: &LockDesk, want: super::Want) -> Result<Response<Content>, Problem> {
        let claim = desk.acquire(want).await.map_err(shapes::refused)?;
        Ok(shapes::granted(&claim.take(), self.clock.now()))
    }

    /// The locks that are held or waited for here, as the store has them.
    async fn list(&self, desk: &LockDesk, limit: usize) -> Result<Response<Content>, Problem> {
        let (used, all) = desk.used(limit);
        let looks = stream::iter(used).map(|used| async move {
            let insight = desk.inspect(used.name.clone()).await?;
            Ok((used, insight))
        });
        let seen: Result<Vec<_>, _> = looks.buffered(READS).try_collect().await;
        Ok(shapes::list(&seen.map_err(shapes::refused)?, all))
    }

    /// The lines of a hold. Each is written when the client is ready for it, so what it says of time is true then; and
    /// dropping the stream drops the hold.
    fn tell(&self, hold: Hold) -> impl futures_util::Stream<Item = Bytes> + Send + Sync + use<> {
        let clock = Arc::clone(&self.clock);
        stream::unfold((hold, Told::Nothing, clock), |(mut hold, told, clock)| async move {
            match told {
                Told::Nothing => {
                    let line = shapes::first_line(&hold.granted, clock.now());
                    Some((line, (hold, Told::Grant, clock)))
                }
                Told::Grant => {
                    // Its task is gone: nobody renews it any more.
                    hold.state.changed().await.ok()?;
                    let state = *hold.state.borrow_and_update();
                    let line = shapes::next_line(state, clock.now())?;
                    let told = if matches!(state, HoldState::Lost { .. }) { Told::All } else { Told::Grant };
                    Some((line, (hold, told, clock)))
                }
                Told::All => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_path_is_routed_with_the_methods_listed() {
        for (template, allow) in ROUTES {
            let path = template.replace("{name}", "a%2Fb").replace("{id}", &"0".repeat(32));
            assert_eq!(Route::find(&path).map(Route::allow), Some(allow), "{template}");
        }
    }

    #[test]
    fn nothing_is_found_beside_the_listed_paths() {
        for path in ["", "/lock", "/lockse", "/locks/a/b/c", "/locks/a/hold/", "locks", "/Locks/a"] {
            assert_eq!(Route::find(path), None, "{path:?}");
        }
        assert_eq!(Route::find("/locks/"), Some(Route::One("")), "the empty name is refused for what it is");
        assert_eq!(Route::find("/locks/hold"), Some(Route::One("hold")));
    }
}

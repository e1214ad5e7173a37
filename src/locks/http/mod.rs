//! The calls of locks, as they are plugged into the app's listener.

mod dapr;
mod requests;
mod responses;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Want;
use super::hold::{Hold, HoldState};
use super::operator::READS;
use super::service::LockService;
use requests::Listing;

use crate::base::clock::SharedClock;
use crate::http::{Ask, Problem, ProblemKind, Response, Routes, json_lines, no_content};

pub use dapr::routes as dapr_routes;

/// What every call may use: a service, or the reason why there is none.
#[derive(Debug)]
pub struct LockContext {
    service: Result<Arc<LockService>, &'static str>,
    clock: SharedClock,
}

impl LockContext {
    fn service(&self) -> Result<&Arc<LockService>, Problem> {
        self.service.as_ref().map_err(|reason| Problem::new(ProblemKind::LocksDisabled, *reason))
    }
}

/// The calls of locks: answered by this service, or all refused for this reason.
pub fn routes(service: Result<Arc<LockService>, &'static str>, clock: SharedClock) -> Routes<LockContext> {
    Routes::new(LockContext { service, clock })
        .get("/locks", list)
        .post_json("/locks", acquire_several)
        .get("/locks/{name}", inspect)
        .post_json("/locks/{name}", acquire_one)
        .get("/locks/{name}/hold", hold)
        .delete_json("/locks/{name}", unlock)
        .put_json("/locks/{name}/{id}", extend)
        .delete("/locks/{name}/{id}", release)
}

/// The locks that are held or waited for here, as the store has them; or all that it has.
async fn list(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let limit = match requests::Listing::parse(&ask.query)? {
        Listing::Here { limit } => limit,
        Listing::All { after } => return Ok(responses::page(&service.list(after).await.map_err(responses::refused)?)),
    };
    let (used, all) = service.used(limit);
    let looks = stream::iter(used).map(|used| async move {
        let insight = service.inspect(used.name.clone()).await?;
        Ok((used, insight))
    });
    let seen: Result<Vec<_>, _> = looks.buffered(READS).try_collect().await;
    Ok(responses::list(&seen.map_err(responses::refused)?, all))
}

async fn acquire_several(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let want = requests::want_several(&ask.body, context.service()?.settings())?;
    acquire(&context, want).await
}

async fn acquire_one(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let settings = context.service()?.settings();
    let want = requests::want_one(requests::name(ask.segment("name"))?, &ask.body, settings)?;
    acquire(&context, want).await
}

async fn acquire(context: &LockContext, want: Want) -> Result<Response, Problem> {
    let claim = context.service()?.acquire(want).await.map_err(responses::refused)?;
    Ok(responses::granted(&claim.take(), context.clock.now()))
}

async fn inspect(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let (service, name) = (context.service()?, requests::name(ask.segment("name"))?);
    let insight = service.inspect(name.clone()).await.map_err(responses::refused)?;
    Ok(responses::insight(&name, &insight))
}

/// An operator's call.
async fn unlock(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let (service, name) = (context.service()?, requests::name(ask.segment("name"))?);
    let token = requests::token(&ask.body)?;
    let holder = service.unlock(name.clone(), token).await.map_err(responses::refused)?;
    Ok(responses::unlocked(&name, holder.as_ref()))
}

async fn hold(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let (want, max) = requests::want_held(requests::name(ask.segment("name"))?, &ask.query, service.settings())?;
    let hold = service.hold(want, max).await.map_err(responses::refused)?;
    Ok(json_lines(tell(hold, Arc::clone(&context.clock))))
}

async fn extend(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let (name, id) = (requests::name(ask.segment("name"))?, requests::id(ask.segment("id"))?);
    let lease = requests::new_lease(&ask.body, service.settings())?;
    let extended = service.extend(name, id, lease).await.map_err(responses::refused)?;
    Ok(responses::extended(extended, context.clock.now()))
}

async fn release(context: Arc<LockContext>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let (name, id) = (requests::name(ask.segment("name"))?, requests::id(ask.segment("id"))?);
    service.release(name, id).await.map_err(responses::not_released)?;
    Ok(no_content())
}

/// What a hold has told of itself so far.
enum Told {
    Nothing,
    Grant,
    All,
}

/// The lines of a hold. Each is written when the client is ready for it, so what it says of time is true then; and
/// dropping the stream drops the hold.
fn tell(hold: Hold, clock: SharedClock) -> impl futures_util::Stream<Item = Bytes> + Send + Sync {
    stream::unfold((hold, Told::Nothing, clock), |(mut hold, told, clock)| async move {
        match told {
            Told::Nothing => {
                let line = responses::first_line(&hold.granted, clock.now());
                Some((line, (hold, Told::Grant, clock)))
            }
            Told::Grant => {
                // Its task is gone: nobody renews it any more.
                hold.state.changed().await.ok()?;
                let state = *hold.state.borrow_and_update();
                let line = responses::next_line(state, clock.now())?;
                let told = if matches!(state, HoldState::Lost { .. }) { Told::All } else { Told::Grant };
                Some((line, (hold, told, clock)))
            }
            Told::All => None,
        }
    })
}

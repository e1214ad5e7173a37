//! The calls of jobs, as they are plugged into the app's listener.

mod dapr;
mod requests;
mod responses;
mod runtime;

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;

use self::runtime::Page;
use super::run::Order;
use super::service::JobService;
use crate::http::{Ask, Problem, ProblemKind, Response, Routes, no_content};
use crate::protocol::jobs::RunWish;

pub use dapr::routes as dapr_routes;

/// How many jobs are written before others get their turn: renewals are made on the same thread.
const AT_ONCE: usize = 8;

/// What every call may use: a service, or the reason why there is none.
#[derive(Debug)]
pub struct JobCalls {
    service: Result<Arc<JobService>, &'static str>,
}

impl JobCalls {
    fn service(&self) -> Result<&JobService, Problem> {
        self.service.as_deref().map_err(|reason| Problem::new(ProblemKind::JobsDisabled, *reason))
    }
}

/// The calls of jobs: answered by this service, or all refused for this reason.
pub fn routes(service: Result<Arc<JobService>, &'static str>) -> Routes<JobCalls> {
    Routes::new(JobCalls { service })
        .get("/jobs", list)
        .post_json("/jobs/suspend", |context, ask| suspend_all(context, ask, true))
        .sharing()
        .post_json("/jobs/resume", |context, ask| suspend_all(context, ask, false))
        .sharing()
        .get("/jobs/{name}", one)
        .put_json("/jobs/{name}", runtime::put)
        .delete("/jobs/{name}", runtime::delete)
        .post_json("/jobs/{name}/run", run)
        .post_json("/jobs/{name}/suspend", |context, ask| suspend(context, ask, true))
        .post_json("/jobs/{name}/resume", |context, ask| suspend(context, ask, false))
        .post_json("/jobs/{name}/backfill", backfill)
        .get("/jobs/{name}/runs", runs)
        .post_json("/jobs/{name}/runs/{id}/cancel", |context, ask| order_run(context, ask, RunWish::Cancel))
        .post_json("/jobs/{name}/runs/{id}/retry", |context, ask| order_run(context, ask, RunWish::Retry))
        .post_json("/jobs/{name}/runs/{id}/complete", complete)
        .post_json("/jobs/{name}/runs/{id}/heartbeat", heartbeat)
}

async fn list(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let page = Page::parse(&ask.query)?;
    let mut list = responses::List::default();
    let mut views = pin!(service.all().enumerate());
    // Who asks for more of those that were made at run time has seen the others.
    while let Some((at, view)) = if page.after.is_some() { None } else { views.next().await } {
        list.add(&view.map_err(responses::refused)?);
        if at % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    let Some(at_run_time) = service.runtime() else { return Ok(list.end()) };
    let made = at_run_time.page(page.after.as_ref(), page.limit + 1).await.map_err(runtime::refused)?;
    for (at, view) in made.iter().take(page.limit).enumerate() {
        list.push(&runtime::shape(view));
        if at % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    let more = made.get(page.limit - 1).filter(|_| made.len() > page.limit);
    Ok(runtime::with_next(list.end(), more.and_then(|last| page.next(&last.name))))
}

async fn one(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    requests::no_parameters(&ask.query)?;
    match service.view(&requests::segment(ask.segment("name"))?).await {
        Ok(view) => Ok(responses::one(&view)),
        Err(error) => {
            let (at_run_time, name) = runtime::instead(service, &error)?;
            Ok(runtime::one(&at_run_time.view(&name).await.map_err(|made| runtime::neither(error, made))?))
        }
    }
}

async fn run(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let request = requests::run(&ask.headers, &ask.body)?;
    let run = match service.ask(&requests::segment(ask.segment("name"))?, &request).await {
        Ok(run) => run,
        Err(error) => {
            let (at_run_time, name) = runtime::instead(service, &error)?;
            runtime::plain(&request)?;
            at_run_time.ask(&name).await.map_err(|made| runtime::neither(error, made))?
        }
    };
    Ok(responses::asked(&run))
}

async fn backfill(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let (from, to) = requests::backfill(&ask.body)?;
    let name = requests::segment(ask.segment("name"))?;
    let backfill = service.backfill(&name, from, to).await.map_err(responses::refused)?;
    Ok(responses::backfill(&backfill))
}

async fn suspend(context: Arc<JobCalls>, ask: Ask, suspend: bool) -> Result<Response, Problem> {
    let service = context.service()?;
    requests::no_body(&ask.body)?;
    if let Err(error) = service.suspend(&requests::segment(ask.segment("name"))?, suspend).await {
        let (at_run_time, name) = runtime::instead(service, &error)?;
        at_run_time.suspend(&name, suspend).await.map_err(|made| runtime::neither(error, made))?;
    }
    Ok(no_content())
}

async fn suspend_all(context: Arc<JobCalls>, ask: Ask, suspend: bool) -> Result<Response, Problem> {
    let service = context.service()?;
    requests::no_body(&ask.body)?;
    service.suspend_all(suspend).await.map_err(responses::refused)?;
    Ok(no_content())
}

async fn runs(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let page = requests::page(&ask.query)?;
    match service.view(&requests::segment(ask.segment("name"))?).await {
        Ok(view) => Ok(responses::runs(&view, &page)),
        Err(error) => {
            let (at_run_time, name) = runtime::instead(service, &error)?;
            Ok(runtime::runs(&at_run_time.view(&name).await.map_err(|made| runtime::neither(error, made))?))
        }
    }
}

async fn order_run(context: Arc<JobCalls>, ask: Ask, what: RunWish) -> Result<Response, Problem> {
    let service = context.service()?;
    requests::no_body(&ask.body)?;
    let (name, id) = (requests::segment(ask.segment("name"))?, requests::segment(ask.segment("id"))?);
    let run = service.order_run(&name, &id, what).await.map_err(responses::refused)?;
    Ok(responses::asked(&run))
}

async fn complete(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let (attempt, word) = requests::completion(&ask.body)?;
    order(service, &ask, attempt, Order::Complete(word)).await
}

async fn heartbeat(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let service = context.service()?;
    let attempt = requests::heartbeat(&ask.body)?;
    order(service, &ask, attempt, Order::Heartbeat).await
}

async fn order(service: &JobService, ask: &Ask, attempt: Option<u32>, order: Order) -> Result<Response, Problem> {
    let (name, id) = (requests::segment(ask.segment("name"))?, requests::segment(ask.segment("id"))?);
    if let Err(error) = service.order(&name, &id, attempt, order.clone()).await {
        let (at_run_time, name) = runtime::instead(service, &error)?;
        at_run_time.order(&name, &id, attempt, order).map_err(responses::refused)?;
    }
    Ok(no_content())
}

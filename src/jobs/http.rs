//! The calls of jobs, as they are plugged into the app's listener.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;

use super::desk::JobDesk;
use super::runner::Order;
use super::{shapes, words};
use crate::http::{Ask, Problem, ProblemKind, Response, Routes, no_content};

/// How many jobs are written before others get their turn: renewals are made on the same thread.
const AT_ONCE: usize = 8;

/// What every call may use: a desk, or the reason why there is none.
#[derive(Debug)]
pub struct Context {
    desk: Result<Arc<JobDesk>, &'static str>,
}

impl Context {
    fn desk(&self) -> Result<&JobDesk, Problem> {
        self.desk.as_deref().map_err(|reason| Problem::new(ProblemKind::JobsDisabled, *reason))
    }
}

/// The calls of jobs: answered by this desk, or all refused for this reason.
pub fn routes(desk: Result<Arc<JobDesk>, &'static str>) -> Routes<Context> {
    Routes::new(Context { desk })
        .get("/jobs", list)
        .get("/jobs/{name}", one)
        .post_json("/jobs/{name}/run", run)
        .post_json("/jobs/{name}/suspend", |context, ask| suspend(context, ask, true))
        .post_json("/jobs/{name}/resume", |context, ask| suspend(context, ask, false))
        .get("/jobs/{name}/runs", runs)
        .post_json("/jobs/{name}/runs/{id}/complete", complete)
        .post_json("/jobs/{name}/runs/{id}/heartbeat", heartbeat)
}

async fn list(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    words::no_parameters(&ask.query)?;
    let mut views = pin!(desk.all().enumerate());
    let mut list = shapes::List::default();
    while let Some((at, view)) = views.next().await {
        list.add(&view.map_err(shapes::refused)?);
        if at % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    Ok(list.end())
}

async fn one(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    words::no_parameters(&ask.query)?;
    Ok(shapes::one(&desk.view(&words::segment(ask.segment("name"))?).await.map_err(shapes::refused)?))
}

async fn run(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    words::no_body(&ask.body)?;
    let run = desk.ask(&words::segment(ask.segment("name"))?).await.map_err(shapes::refused)?;
    Ok(shapes::asked(&run))
}

async fn suspend(context: Arc<Context>, ask: Ask, suspend: bool) -> Result<Response, Problem> {
    let desk = context.desk()?;
    words::no_body(&ask.body)?;
    desk.suspend(&words::segment(ask.segment("name"))?, suspend).await.map_err(shapes::refused)?;
    Ok(no_content())
}

async fn runs(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    let page = words::page(&ask.query)?;
    let view = desk.view(&words::segment(ask.segment("name"))?).await.map_err(shapes::refused)?;
    Ok(shapes::runs(&view, &page))
}

async fn complete(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    let (attempt, word) = words::completion(&ask.body)?;
    order(desk, &ask, attempt, Order::Complete(word)).await
}

async fn heartbeat(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let desk = context.desk()?;
    let attempt = words::heartbeat(&ask.body)?;
    order(desk, &ask, attempt, Order::Heartbeat).await
}

async fn order(desk: &JobDesk, ask: &Ask, attempt: Option<u32>, order: Order) -> Result<Response, Problem> {
    let (name, id) = (words::segment(ask.segment("name"))?, words::segment(ask.segment("id"))?);
    desk.order(&name, &id, attempt, order).await.map_err(shapes::refused)?;
    Ok(no_content())
}

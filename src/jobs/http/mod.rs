//! The calls of jobs, as they are plugged into the app's listener.

mod requests;
mod responses;

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use hyper::{Method, Response};

use super::run::Order;
use super::service::JobService;
use crate::http::{Ask, Calls, Content, Problem, ProblemKind, no_content};

/// Every path of jobs with its methods, as `Allow` lists them. `openapi.yaml` has the same; a test compares.
pub const ROUTES: [(&str, &str); 8] = [
    ("/jobs", "GET"),
    ("/jobs/{name}", "GET"),
    ("/jobs/{name}/run", "POST"),
    ("/jobs/{name}/suspend", "POST"),
    ("/jobs/{name}/resume", "POST"),
    ("/jobs/{name}/runs", "GET"),
    ("/jobs/{name}/runs/{id}/complete", "POST"),
    ("/jobs/{name}/runs/{id}/heartbeat", "POST"),
];

/// How many jobs are written before others get their turn: renewals are made on the same thread.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    All,
    One(&'a str),
    Run(&'a str),
    Suspend(&'a str, bool),
    Runs(&'a str),
    Complete(&'a str, &'a str),
    Heartbeat(&'a str, &'a str),
}

impl<'a> Route<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix("/jobs")?.split('/').collect();
        Some(match segments[..] {
            [""] => Self::All,
            ["", name] => Self::One(name),
            ["", name, "run"] => Self::Run(name),
            ["", name, "suspend"] => Self::Suspend(name, true),
            ["", name, "resume"] => Self::Suspend(name, false),
            ["", name, "runs"] => Self::Runs(name),
            ["", name, "runs", id, "complete"] => Self::Complete(name, id),
            ["", name, "runs", id, "heartbeat"] => Self::Heartbeat(name, id),
            _ => return None,
        })
    }

    fn allow(self) -> &'static str {
        match self {
            Self::All | Self::One(_) | Self::Runs(_) => "GET",
            Self::Run(_) | Self::Suspend(..) | Self::Complete(..) | Self::Heartbeat(..) => "POST",
        }
    }
}

/// The calls, over a service, or the reason why there is none.
#[derive(Debug)]
pub struct JobCalls {
    service: Result<Arc<JobService>, &'static str>,
}

impl JobCalls {
    /// Calls that are answered by this service.
    pub fn new(service: Arc<JobService>) -> Self {
        Self { service: Ok(service) }
    }

    /// Calls that are all refused, for this reason.
    pub fn disabled(reason: &'static str) -> Self {
        Self { service: Err(reason) }
    }
}

#[async_trait]
impl Calls for JobCalls {
    fn allow(&self, path: &str) -> Option<&'static str> {
        Route::find(path).map(Route::allow)
    }

    async fn answer(&self, ask: Ask) -> Result<Response<Content>, Problem> {
        let service = self.service.as_ref().map_err(|reason| Problem::new(ProblemKind::JobsDisabled, *reason))?;
        let Some(route) = Route::find(&ask.path) else {
            return Err(Problem::new(ProblemKind::UnknownPath, "there is nothing here"));
        };
        debug_assert!(ask.method == Method::HEAD || route.allow().contains(ask.method.as_str()));
        match route {
            Route::All => {
                requests::no_parameters(&ask.query)?;
                list(service).await
            }
            Route::One(name) => {
                requests::no_parameters(&ask.query)?;
                Ok(responses::one(&service.view(&requests::segment(name)?).await.map_err(responses::refused)?))
            }
            Route::Run(name) => {
                requests::no_body(&ask.body)?;
                let run = service.ask(&requests::segment(name)?).await.map_err(responses::refused)?;
                Ok(responses::asked(&run))
            }
            Route::Suspend(name, suspend) => {
                requests::no_body(&ask.body)?;
                service.suspend(&requests::segment(name)?, suspend).await.map_err(responses::refused)?;
                Ok(no_content())
            }
            Route::Runs(name) => {
                let page = requests::page(&ask.query)?;
                let view = service.view(&requests::segment(name)?).await.map_err(responses::refused)?;
                Ok(responses::runs(&view, &page))
            }
            Route::Complete(name, id) => {
                let (attempt, word) = requests::completion(&ask.body)?;
                self.order(service, name, id, attempt, Order::Complete(word)).await
            }
            Route::Heartbeat(name, id) => {
                let attempt = requests::heartbeat(&ask.body)?;
                self.order(service, name, id, attempt, Order::Heartbeat).await
            }
        }
    }
}

impl JobCalls {
    async fn order(
        &self,
        service: &JobService,
        name: &str,
        id: &str,
        attempt: Option<u32>,
        order: Order,
    ) -> Result<Response<Content>, Problem> {
        let (name, id) = (requests::segment(name)?, requests::segment(id)?);
        service.order(&name, &id, attempt, order).await.map_err(responses::refused)?;
        Ok(no_content())
    }
}

async fn list(service: &JobService) -> Result<Response<Content>, Problem> {
    let mut views = pin!(service.all().enumerate());
    let mut list = responses::List::default();
    while let Some((at, view)) = views.next().await {
        list.add(&view.map_err(responses::refused)?);
        if at % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    Ok(list.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_path_is_routed_with_the_methods_listed() {
        for (template, allow) in ROUTES {
            let path = template.replace("{name}", "nightly").replace("{id}", "nightly-1763690400");
            assert_eq!(Route::find(&path).map(Route::allow), Some(allow), "{template}");
        }
    }

    #[test]
    fn nothing_is_found_beside_the_listed_paths() {
        for path in
            ["", "/job", "/jobsx", "/jobs/a/b", "/jobs/a/runs/x", "/jobs/a/runs/x/other", "/jobs/a/run/", "/Jobs"]
        {
            assert_eq!(Route::find(path), None, "{path:?}");
        }
        assert_eq!(
            Route::find("/jobs/"),
            Some(Route::One("")),
            "the empty name is unknown, and the known ones are told"
        );
    }
}

//! Which pods have a label, at every moment, as a watch of the API server tells it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use testkit::apiserver::client;
use testkit::wait::PATIENCE;
use testkit::wait_until_async;
use tokio::sync::oneshot;

/// The pods with the label, each with the token beside it.
type Labelled = BTreeMap<String, String>;

/// See the module. Ends when dropped.
pub struct Labels {
    seen: Arc<Mutex<Vec<(Instant, Labelled)>>>,
    watcher: JoinHandle<()>,
    _stop: oneshot::Sender<()>,
}

impl Labels {
    /// Watches the pods of a namespace from now on, on a thread of its own.
    pub fn watch(kubeconfig: Kubeconfig, namespace: &str, label: &'static str) -> Self {
        let seen = Arc::new(Mutex::new(vec![(Instant::now(), Labelled::new())]));
        let (notes, namespace) = (Arc::clone(&seen), namespace.to_owned());
        let (stop, stopped) = oneshot::channel::<()>();
        let watcher = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let pods: Api<Pod> = Api::namespaced(client(kubeconfig).await, &namespace);
                tokio::select! {
                    () = follow(pods, label, notes) => {}
                    // An error means that its owner is gone: the same.
                    _ = stopped => {}
                }
            });
        });
        Self { seen, watcher, _stop: stop }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<(Instant, Labelled)>> {
        assert!(!self.watcher.is_finished(), "nobody watches the labels any more");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pods that have the label now.
    pub fn now(&self) -> Labelled {
        let seen = self.seen();
        seen.last().map(|(_, labelled)| labelled.clone()).unwrap_or_default()
    }

    /// Since when these pods have the label and no others; none when it is not so.
    pub fn since(&self, wanted: &Labelled) -> Option<Instant> {
        let seen = self.seen();
        let last = seen.iter().rev().take_while(|(_, labelled)| labelled == wanted).last();
        last.map(|(at, _)| *at)
    }

    /// The longest time for which more than one pod had the label.
    pub fn longest_double(&self) -> Duration {
        let seen = self.seen();
        let mut longest = Duration::ZERO;
        let mut since = None;
        for (at, labelled) in seen.iter() {
            match (labelled.len() > 1, since) {
                (true, None) => since = Some(*at),
                (false, Some(begun)) => {
                    longest = longest.max(at.saturating_duration_since(begun));
                    since = None;
                }
                _ => {}
            }
        }
        longest
    }
}

/// The pods as they are now. A server that stands still is waited for.
async fn listed(pods: &Api<Pod>) -> ObjectList<Pod> {
    let mut list = None;
    wait_until_async(PATIENCE, "the API server lists pods", async || {
        list = pods.list(&ListParams::default()).await.ok();
        list.is_some()
    })
    .await;
    list.expect("waited for")
}

async fn follow(pods: Api<Pod>, label: &str, notes: Arc<Mutex<Vec<(Instant, Labelled)>>>) {
    let mut labelled = Labelled::new();
    let mut note = |pod: &Pod, gone: bool| {
        let name = pod.name_any();
        let has = pod.labels().get(label).is_some_and(|value| value == "leader") && !gone;
        if has {
            labelled.insert(name, pod.annotations().get(label).cloned().unwrap_or_default());
        } else {
            labelled.remove(&name);
        }
        notes.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), labelled.clone()));
    };
    loop {
        let list = listed(&pods).await;
        list.items.iter().for_each(|pod| note(pod, false));
        let version = list.metadata.resource_version.unwrap_or_default();
        let Ok(events) = pods.watch(&WatchParams::default(), &version).await else { continue };
        let mut events = std::pin::pin!(events);
        while let Some(Ok(event)) = events.next().await {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => note(&pod, false),
                WatchEvent::Deleted(pod) => note(&pod, true),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => break,
            }
        }
    }
}

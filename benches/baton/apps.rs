//! Apps beside three replicas with many roles, each of which is handed over once: the old leader stays out for so long
//! that the next one is another.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;

use crate::client::Client;
use crate::replica::Group;

/// How long an old leader stays out of a role. Its return shall not be taken for a handover.
pub const COOLDOWN: Duration = Duration::from_secs(30);
/// Until long polls have arrived.
const ARRIVED: Duration = Duration::from_millis(5);
/// Every role has a leader within this: the longest lease here is 30 s, for which a new role is shut.
const START: Duration = Duration::from_secs(120);

/// See the module.
pub struct Apps<'a> {
    group: &'a Group,
    /// Of each replica: who asks its telemetry listener, which promises nothing, who tells it to resign, and who waits.
    looking: Vec<Client>,
    telling: Vec<Client>,
    waiting: Vec<Client>,
}

impl<'a> Apps<'a> {
    /// Waits until each of the group's roles has a leader.
    pub async fn start(group: &'a Group) -> Self {
        let (begun, roles) = (Instant::now(), group.specs[0].roles as f64);
        loop {
            let led = join_all(group.replicas.iter().map(|replica| replica.metric("baton_leader", ""))).await;
            if led.iter().sum::<f64>() >= roles {
                break;
            }
            assert!(begun.elapsed() < START, "{led:?} of {roles} roles are led within {START:?}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let clients = || join_all(group.replicas.iter().map(|replica| replica.client()));
        let looking = join_all(group.replicas.iter().map(|replica| replica.telemetry_client())).await;
        Self { group, looking, telling: clients().await, waiting: clients().await }
    }

    /// From the moment before the leader's app asks it to resign until another's app has read `leader: true`, by long
    /// poll.
    pub async fn hand_over(&mut self, role: &str) -> Duration {
        let leader = self.leader(role).await;
        let old = self.group.specs[leader].identity.as_str();
        let mut polls = Vec::new();
        for (_, client) in self.waiting.iter_mut().enumerate().filter(|(at, _)| *at != leader) {
            let index = index_beside(client, role, old).await;
            polls.push(led_by_another(client, role, old, index));
        }
        let resignation = async {
            tokio::time::sleep(ARRIVED).await;
            let (begun, path) = (Instant::now(), format!("/leader/{role}/resign"));
            let body = format!("{{\"cooldown\":\"{}s\"}}", COOLDOWN.as_secs());
            let status = self.telling[leader].send("POST", &path, &body).await.map(|(status, ..)| status);
            assert_eq!(status, Ok(202), "the leader resigns when asked");
            begun
        };
        let (begun, heard) = tokio::join!(resignation, join_all(polls));
        heard.into_iter().flatten().min().expect("one of them leads") - begun
    }

    async fn leader(&mut self, role: &str) -> usize {
        let (begun, path) = (Instant::now(), format!("/leading/{role}"));
        loop {
            let answers = join_all(self.looking.iter_mut().map(|client| client.send("GET", &path, ""))).await;
            let leads = |answer: &Result<(u16, _, _), _>| matches!(answer, Ok((200, ..)));
            if let Some(leader) = answers.iter().position(leads) {
                return leader;
            }
            assert!(begun.elapsed() < START, "{role} has no leader within {START:?}: {answers:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The index of a standby's answer, once it knows who leads.
async fn index_beside(client: &mut Client, role: &str, leader: &str) -> Value {
    let begun = Instant::now();
    loop {
        let answer = client.json("GET", &format!("/leader/{role}"), "").await.expect("a replica answers");
        if answer["holder"] == leader {
            return answer["index"].clone();
        }
        assert!(begun.elapsed() < START, "{answer} knows of no leader {leader} within {START:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the role has another leader than the old one. When that was read, if it is this replica.
async fn led_by_another(client: &mut Client, role: &str, old: &str, mut index: Value) -> Option<Instant> {
    loop {
        let path = format!("/leader/{role}?wait=30s&index={index}");
        let answer = client.json("GET", &path, "").await.expect("a replica answers");
        let heard_at = Instant::now();
        if answer["leader"] == true {
            return Some(heard_at);
        }
        // In between nobody leads.
        if answer["holder"].as_str().is_some_and(|holder| holder != old) {
            return None;
        }
        index = answer["index"].clone();
    }
}

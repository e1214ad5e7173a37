//! One member of a quorum: a single, independent master. It is reached as any Redis is; what differs is what it is
//! asked, and what its keys hold.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::connection::SetupError;
use super::scripts::{
    self, Asked, Keys, MEMBER_CAMPAIGN, MEMBER_PURGE, MEMBER_RAISE, MEMBER_RELEASE, MEMBER_RENEW,
    member_campaign_reply, purge_reply, raise_reply, release_reply,
};
use super::{CredentialCounts, RedisStore};
use crate::base::Subscription;
use crate::config::RedisConfig;
use crate::protocol::{MemberReply, MemberRequest, RoleName, Stamped};
use crate::store::quorum::QuorumMember;
use crate::store::{LeaseStore, News, Purge, ShortestLease, StoreError, StoreHealth};

/// See the module.
#[derive(Debug)]
pub struct RedisMember {
    store: RedisStore,
    /// What it is told of the list of members that it is of, in the words of
    /// [`QuorumConfig::lists`](crate::config::QuorumConfig::lists).
    lists: Arc<str>,
}

impl RedisMember {
    /// As [`RedisStore::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(
        config: &RedisConfig,
        lists: Arc<str>,
        lease_min: impl Into<ShortestLease>,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let connected = RedisStore::connect(config, lease_min, seed);
        let store = connected.map_err(|error| error.in_section("store.quorum", "members[].url"))?;
        Ok(Self { store, lists })
    }

    /// As [`RedisStore::credentials`].
    pub fn credentials(&self) -> Option<watch::Receiver<CredentialCounts>> {
        self.store.credentials()
    }

    /// As [`QuorumMember::ask`], with the server's clock when it answered.
    ///
    /// # Errors
    /// As there.
    pub async fn ask_stamped(&self, role: &RoleName, ask: &MemberRequest) -> Result<Stamped<MemberReply>, StoreError> {
        let args = |mut args: Vec<String>| {
            args.push(self.lists.to_string());
            args
        };
        Ok(match ask {
            MemberRequest::Campaign(request) => {
                let args = args(scripts::member_campaign_args(request));
                self.store.run(role, &MEMBER_CAMPAIGN, args, member_campaign_reply).await?.reply
            }
            MemberRequest::Raise(request) => {
                self.store.run(role, &MEMBER_RAISE, args(scripts::raise_args(request)), raise_reply).await?.reply
            }
            MemberRequest::Renew(request) => {
                let keys = Keys::new(&self.store.settings.namespace, role);
                let call = scripts::renewal(&MEMBER_RENEW, keys, request, Asked::Replication, Some(&self.lists));
                self.store.renewed(call, request).await?.reply.map(MemberReply::Renew)
            }
            MemberRequest::Release(request) => {
                let args = scripts::release_args(request);
                self.store.run(role, &MEMBER_RELEASE, args, release_reply).await?.reply.map(MemberReply::Release)
            }
        })
    }
}

#[async_trait]
impl QuorumMember for RedisMember {
    fn name(&self) -> &str {
        &self.store.settings.endpoint
    }

    async fn ask(&self, role: &RoleName, ask: &MemberRequest) -> Result<MemberReply, StoreError> {
        Ok(self.ask_stamped(role, ask).await?.reply)
    }

    fn subscribe(&self, role: &RoleName) -> Subscription<News> {
        self.store.subscribe(role, None)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.store.health()
    }

    fn trouble(&self) -> Option<StoreError> {
        self.store.routes.base.link().err()
    }

    /// Redis's run_id, as told at the last connect.
    fn process(&self) -> Option<String> {
        self.store.routes.base.run_id()
    }

    fn notes(&self) -> Vec<String> {
        let replicas = self.store.routes.base.replicas().filter(|replicas| *replicas > 0);
        let replicas = replicas.map(|count| {
            format!(
                "it has {count} replicas: a member has none, for a failover to one of them would hand on what the \
                 quorum has not agreed to"
            )
        });
        let in_cluster = self.store.routes.base.is_in_cluster().then(|| {
            "it is a node of a Redis Cluster: a member is a server by itself, for a node has only the roles of its \
             slots, and a failover would hand on what the quorum has not agreed to"
                .to_owned()
        });
        self.store.notes().into_iter().chain(replicas).chain(in_cluster).collect()
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        Ok(self.store.run(role, &MEMBER_PURGE, Vec::new(), purge_reply).await?.reply)
    }
}

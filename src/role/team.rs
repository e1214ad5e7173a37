//! The roles that one replica runs: started, retired while the others go on, and ended together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::app_check::watch_app;
use super::handle::{Command, RoleHandle, Roles};
use super::shards::{Shards, SpreadSpec, spread};
use super::task::{RoleContext, RoleSpec, role};
use crate::base::process::Entropy;
use crate::config::{AppCheck, RoleConfig};
use crate::protocol::{Attempts, Balance, Policy, RoleName, SessionId, Timing};
use crate::store::PresenceStore;

/// What all roles of a replica have in common.
#[derive(Clone)]
pub struct Membership {
    /// This replica's name for people.
    pub identity: Arc<str>,
    /// This start of this process, or of this replica where one process plays several.
    pub session: SessionId,
    /// False for `guard: off`.
    pub guard: bool,
    /// Where the replicas of a role that is split, or goes to who is preferred, find each other; none where neither can
    /// be had.
    pub presence: Option<Arc<dyn PresenceStore>>,
    /// When this replica began, in microseconds since 1970: how old its version is, as far as it knows.
    pub since: u64,
}

/// How many roles are told something before others get their turn.
const AT_ONCE: usize = 64;

pub struct Team {
    membership: Membership,
    context: RoleContext,
    entropy: Entropy,
    roles: Roles,
    attempts: Attempts,
    running: BTreeMap<RoleName, RoleHandle>,
    /// The roles that are split over shards, or go to who is preferred, each with its timings and the way to the task
    /// that sees to that.
    split: BTreeMap<RoleName, (Timing, watch::Sender<Shards>)>,
    /// How many health checks of the app fail.
    failing_checks: watch::Sender<usize>,
    /// One for each role, each health check and each role that is split.
    tasks: JoinSet<End>,
    /// Roles that were told to end, and have not yet.
    leaving: BTreeMap<RoleName, RoleHandle>,
    /// Roles whose spreading was told to end, and has not yet.
    uniting: BTreeSet<RoleName>,
    /// The roles of the last [`Self::change`], and the default one, until they run.
    next: Option<(Vec<RoleConfig>, Option<RoleName>)>,
}

/// Which task has ended.
enum End {
    Role(RoleName),
    HealthCheck,
    /// That of a role that is split, or was.
    Spreading(RoleName),
}

/// A role's task ended though nobody had asked it to, or panicked: a bug, after which the process must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role's task ended by itself: {what}")]
pub struct Broken {
    /// Which, or the panic.
    pub what: String,
}

/// Where a role stands among those that start with it: how much later than the first it does what many would else do
/// at once. A command has a timeout, and a thousand in one moment may take longer than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stagger(Duration);

impl Stagger {
    /// How far apart roles stand, where a renewal period is long enough for all of them.
    const STEP: Duration = Duration::from_micros(500);
    /// Fewer need not be staggered.
    const MANY: usize = 50;

    /// Of the role that is number `at` of `count`. None is later than a renewal period: together they ask no faster
    /// than they will have to renew.
    fn among(at: usize, count: usize, timing: &Timing) -> Self {
        if count < Self::MANY {
            return Self(Duration::ZERO);
        }
        let nth = |nth: usize| u32::try_from(nth).unwrap_or(u32::MAX);
        let step = Self::STEP.min(timing.renew_period() / nth(count));
        Self(step * nth(at + 1))
    }
}

/// Whether others have a say in when it is campaigned for.
fn is_spread(config: &RoleConfig) -> bool {
    config.name.shard_number().is_some() || config.preference.is_some()
}

fn by_name(roles: &[RoleConfig]) -> BTreeMap<&RoleName, &RoleConfig> {
    roles.iter().map(|config| (&config.name, config)).collect()
}

impl Team {
    /// Nobody yet.
    pub fn new(membership: Membership, context: RoleContext, entropy: Entropy) -> Self {
        Self {
            membership,
            context,
            entropy,
            roles: Roles::default(),
            attempts: Attempts::default(),
            running: BTreeMap::new(),
            split: BTreeMap::new(),
            failing_checks: watch::Sender::new(0),
            tasks: JoinSet::new(),
            leaving: BTreeMap::new(),
            uniting: BTreeSet::new(),
            next: None,
        }
    }

    /// The roles as the listeners see them, now and after every change.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// How many of the roles' health checks of the app fail at a time.
    pub fn failing_checks(&self) -> watch::Receiver<usize> {
        self.failing_checks.subscribe()
    }

    /// Runs these roles from now on: retires those that are gone, or whose timings or health check are others, by the
    /// drain of R7. [`Self::settle`] starts those that are new or others as soon as that can be; the rest is left
    /// alone.
    pub async fn change(&mut self, old: &[RoleConfig], new: &[RoleConfig], default_role: Option<RoleName>) {
        self.unite(new);
        let wanted = by_name(new);
        let stays = |config: &&RoleConfig| wanted.get(&config.name).is_some_and(|next| next.is_run_as(config));
        for RoleConfig { name, .. } in old.iter().filter(|config| !stays(config)) {
            let Some(handle) = self.running.remove(name) else { continue };
            handle.tell(Command::Shutdown).await;
            self.leaving.insert(name.clone(), handle);
            if !wanted.contains_key(name) {
                self.context.telemetry.metrics().remove_role(name);
            }
        }
        // Who still drains under a name that is wanted answers for it meanwhile: `/drained` is meant for that one.
        let shown = self.leaving.iter().chain(&self.running).filter(|(name, _)| wanted.contains_key(name));
        self.roles.replace(shown.map(|(_, handle)| handle.clone()).collect(), default_role.clone());
        self.next = Some((new.to_vec(), default_role));
    }

    /// Completes the last [`Self::change`]. False as long as a role has not ended that comes back under its name,
    /// whichever change told it to: two tasks of one session would take each other's lease for their own. Likewise the
    /// spreading of a role that is split again: the last word of the old one takes back what the new one has said.
    pub fn settle(&mut self) -> bool {
        let Some((new, default_role)) = self.next.take() else { return true };
        let unites = |name: &RoleName| self.uniting.contains(&name.role());
        if new.iter().any(|config| self.leaving.contains_key(&config.name) || unites(&config.name)) {
            self.next = Some((new, default_role));
            return false;
        }
        let mut watched: BTreeMap<RoleName, (AppCheck, Vec<RoleHandle>)> = BTreeMap::new();
        let added: Vec<&RoleConfig> = new.iter().filter(|config| !self.running.contains_key(&config.name)).collect();
        for (at, config) in added.iter().enumerate() {
            let handle = self.start(config, Stagger::among(at, added.len(), &config.timing));
            if let Some(check) = &config.app_check {
                let (_, handles) = watched.entry(config.name.role()).or_insert_with(|| (check.clone(), Vec::new()));
                handles.push(handle);
            }
        }
        for (check, handles) in watched.into_values() {
            let failing = self.failing_checks.clone();
            self.tasks.spawn(async move {
                watch_app(check, handles, failing).await;
                End::HealthCheck
            });
        }
        self.roles.replace(self.running.values().cloned().collect(), default_role);
        self.split(&new);
        true
    }

    /// Whether a role has been told to end, and has not yet.
    pub fn is_draining(&self) -> bool {
        !self.leaving.is_empty()
    }

    fn start(&mut self, config: &RoleConfig, stagger: Stagger) -> RoleHandle {
        self.context.telemetry.metrics().add_role(&config.name);
        let others_first = is_spread(config);
        let spec = RoleSpec {
            name: config.name.clone(),
            identity: Arc::clone(&self.membership.identity),
            session: self.membership.session,
            attempts: self.attempts.clone(),
            timing: config.timing,
            guard: self.membership.guard,
            app_checked: config.app_check.is_some(),
            role_stagger: stagger.0,
            shard_stagger: if others_first { Balance::stagger_at_first(&config.timing) } else { Duration::ZERO },
            seed: self.entropy.seed(),
        };
        let (handle, task) = role(spec, self.context.clone());
        let name = config.name.clone();
        // Mapped, since a block that awaits it would be twice as large.
        self.tasks.spawn(task.map(|()| End::Role(name)));
        self.running.insert(config.name.clone(), handle.clone());
        handle
    }

    /// Ends the spreading of roles that are split no longer, or with other timings.
    fn unite(&mut self, new: &[RoleConfig]) {
        self.split.retain(|role, (timing, shards)| {
            let stays =
                new.iter().any(|config| is_spread(config) && config.name.role() == *role && config.timing == *timing);
            if !stays {
                shards.send_modify(|shards| shards.leaving = true);
                self.uniting.insert(role.clone());
            }
            stays
        });
    }

    /// Has the shards of every role that is split spread over the replicas, and others go to who is preferred.
    fn split(&mut self, new: &[RoleConfig]) {
        let Some(presence) = &self.membership.presence else { return };
        let mut roles: BTreeMap<RoleName, (Timing, Shards)> = BTreeMap::new();
        for config in new.iter().filter(|config| is_spread(config)) {
            let (_, shards) = roles.entry(config.name.role()).or_insert_with(|| {
                let policy = config.preference.as_ref().map_or(Policy::Even, |it| it.policy(self.membership.since));
                (config.timing, Shards { handles: Vec::new(), count: 0, policy, leaving: false })
            });
            shards.handles.extend(self.running.get(&config.name).cloned());
            shards.count += 1;
        }
        for (role, (timing, shards)) in roles {
            if let Some((_, known)) = self.split.get(&role) {
                known.send_replace(shards);
                continue;
            }
            let (sender, receiver) = watch::channel(shards);
            let (session, seed) = (self.membership.session, self.entropy.seed());
            let spec = SpreadSpec { role: role.clone(), session, timing, seed, presence: Arc::clone(presence) };
            let (context, name) = (self.context.clone(), role.clone());
            self.tasks.spawn(async move {
                spread(spec, context, receiver).await;
                End::Spreading(name)
            });
            self.split.insert(role, (timing, sender));
        }
    }

    /// Drains and releases every role; [`Self::all_ended`] tells when that is done.
    pub async fn shut_down(&mut self) {
        self.tell_all(|| Command::Shutdown).await;
    }

    /// Ends every role at once: a lease whose promises still stand is left to its TTL.
    pub async fn abandon(&mut self) {
        self.tell_all(|| Command::Abandon).await;
    }

    async fn tell_all(&mut self, command: impl Fn() -> Command) {
        // First, so that the others know to whom each shard goes by the time it is given back.
        for (_, shards) in self.split.values() {
            shards.send_modify(|shards| shards.leaving = true);
        }
        self.leaving.append(&mut self.running);
        // Those that a reload has retired among them: they drain already, but are to hear of the second signal.
        for (at, handle) in self.leaving.values().enumerate() {
            handle.tell(command()).await;
            if at % AT_ONCE == AT_ONCE - 1 {
                // So that what the first have to say to the store is not answered only after all were told.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until a role has ended that was told to, or its spreading: perhaps [`Self::settle`] can go on.
    /// Cancel-safe.
    ///
    /// # Errors
    /// A role's task has ended by itself, which none should.
    pub async fn one_ended(&mut self) -> Result<(), Broken> {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(End::Role(name))) => match self.leaving.remove(&name) {
                    Some(_) => return Ok(()),
                    None => return Err(Broken { what: name.to_string() }),
                },
                Some(Ok(End::Spreading(role))) if self.uniting.remove(&role) => return Ok(()),
                Some(Ok(End::Spreading(_) | End::HealthCheck)) => {}
                Some(Err(error)) => return Err(Broken { what: error.to_string() }),
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until a role's task ends by itself, which none should. Cancel-safe; never completes otherwise.
    pub async fn broken(&mut self) -> Broken {
        loop {
            if let Err(broken) = self.one_ended().await {
                return broken;
            }
        }
    }

    /// Waits until every task has ended, after [`Self::shut_down`] or [`Self::abandon`]. Cancel-safe.
    ///
    /// # Errors
    /// A task panicked.
    pub async fn all_ended(&mut self) -> Result<(), Broken> {
        while let Some(end) = self.tasks.join_next().await {
            end.map_err(|error| Broken { what: error.to_string() })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{BootClock, SharedClock};
    use crate::base::process::StallWatch;
    use crate::store::memory::MemoryStore;
    use crate::telemetry::{Metrics, Telemetry};

    fn staggers(count: usize, lease: Duration) -> Vec<Duration> {
        let timing = Timing::from_lease(lease).expect("good timings");
        (0..count).map(|at| Stagger::among(at, count, &timing).0).collect()
    }

    #[test]
    fn many_roles_do_not_start_in_one_moment_and_a_few_do() {
        let lease = Duration::from_secs(15);
        for few in [1, 2, 49] {
            assert!(staggers(few, lease).iter().all(Duration::is_zero), "{few}");
        }
        for (count, last_ms) in [(50, 25), (1_000, 500)] {
            let staggers = staggers(count, lease);
            assert!(staggers[0] > Duration::ZERO, "the first one, too, is staggered");
            assert!(staggers.windows(2).all(|two| two[0] < two[1]), "{count}");
            assert_eq!(staggers[count - 1].as_millis(), last_ms, "{count}");
        }
    }

    /// A team on a store of its own.
    fn team() -> Team {
        let clock: SharedClock = Arc::new(BootClock);
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
        let presence = Some(Arc::clone(&store) as Arc<dyn PresenceStore>);
        let context = RoleContext {
            store,
            clock: Arc::clone(&clock),
            telemetry: Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH))),
            stall: Arc::new(StallWatch::new(clock)),
        };
        let mut entropy = Entropy::from_system();
        let membership =
            Membership { identity: "web-0".into(), session: entropy.session(), guard: true, presence, since: 0 };
        Team::new(membership, context, entropy)
    }

    fn shards(count: u16) -> Vec<RoleConfig> {
        let second = Duration::from_secs(1);
        let timing = Timing::new(6 * second, 2 * second, second, 2 * second).expect("good timings");
        let shard = |number| RoleConfig {
            name: RoleName::new("orders").expect("a DNS label").shard(number),
            timing,
            app_check: None,
            preference: None,
        };
        (0..count).map(shard).collect()
    }

    #[tokio::test]
    async fn a_shard_that_comes_back_waits_for_the_one_that_still_drains_under_its_name() {
        const BOUND: Duration = Duration::from_secs(30);
        let mut team = team();
        let (two, four) = (shards(2), shards(4));
        team.change(&[], &four, None).await;
        assert!(team.settle());
        let first = team.roles().get("orders/3").expect("a shard");
        let mut changes = first.changes();
        let promised = changes.wait_for(|_| first.answer().leader);
        tokio::time::timeout(BOUND, promised).await.expect("it leads").expect("its task runs");
        team.change(&four, &two, None).await;
        assert!(team.settle(), "nobody is to come back");
        assert!(team.roles().get("orders/3").is_none());
        team.change(&two, &four, None).await;
        assert!(!team.settle(), "its promise still stands");
        assert!(team.roles().get("orders/3").is_some(), "it can be told that the app has drained");
        let settled = async {
            while !team.settle() {
                team.one_ended().await.expect("nothing is broken");
            }
        };
        tokio::time::timeout(BOUND, settled).await.expect("the drain ends");
        assert!(first.ended().now_or_never().is_some(), "two tasks under one name");
        assert!(team.roles().get("orders/3").is_some_and(|next| next.ended().now_or_never().is_none()));
    }

    #[tokio::test]
    async fn a_role_that_is_split_again_waits_for_its_old_spreading_to_end() {
        let mut team = team();
        let all = shards(4);
        // Shards of their own each time, so that none is waited for.
        let (before, after) = all.split_at(2);
        team.change(&[], before, None).await;
        assert!(team.settle());
        team.change(before, &[], None).await;
        assert!(team.settle(), "nobody is to come back");
        team.change(&[], after, None).await;
        assert!(!team.settle(), "the old one's last word is that this replica is not there");
        let settled = async {
            while !team.settle() {
                team.one_ended().await.expect("nothing is broken");
            }
        };
        tokio::time::timeout(Duration::from_secs(30), settled).await.expect("it ends");
        assert_eq!(team.roles().all().len(), after.len());
        let text = team.context.telemetry.metrics().render(Default::default(), true).expect("it can be shown");
        let series = "baton_store_command_duration_seconds_count{command=\"presence\",outcome=\"ok\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(series)?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count > 0), "the old one's word is counted: {count:?}");
    }

    #[test]
    fn short_leases_are_not_kept_waiting() {
        let staggers = staggers(1_000, Duration::from_millis(300));
        assert!(staggers[999] <= Duration::from_millis(100), "{:?}", staggers[999]);
    }
}

//! `store.kubernetes:`

use std::time::Duration;

use super::section::{Key, Or, Reader, Rule, Section, key};
use super::value::{Form, LABEL, Span, Words, timeout_within};
use super::{Guard, PREFIX};
use crate::protocol::RoleName;

/// `store.kubernetes:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Where the Lease objects are; the pod's own when absent.
    pub namespace: Option<String>,
    pub name_prefix: String,
    pub command_timeout: Duration,
    pub guard: Guard,
}

const COMMAND_TIMEOUT_USUAL: Duration = Duration::from_secs(5);
/// As namespaces and the parts of an object's name are.
const DNS_LABEL: Form<String> = Form { pattern: LABEL, parse: label };

const NAMESPACE: Key<Form<String>> =
    key("namespace", DNS_LABEL, "The namespace of the Lease objects: a DNS label. Default: the pod's own.");
const NAME_PREFIX: Key<Or<Form<String>>> =
    key("namePrefix", Or(DNS_LABEL, PREFIX), "What their names begin with, before `-<role>`: a DNS label.");
pub(super) const COMMAND_TIMEOUT: Key<Span> = key(
    "commandTimeout",
    Span::POSITIVE,
    "When a request counts as unanswered. Less than every role's renewPeriod. Default: 5s, or half the shortest \
     renewPeriod when that is 5s or less.",
);
const GUARD: Key<Or<Words<Guard>>> = key(
    "guard",
    Or(Guard::WORDS_WITHOUT_HEARD, Guard::Strict),
    "What happens when a Lease object is absent that may have been deleted under its leader: `strict` watches for one \
     lease before another is made, `off` does not.",
);

pub(super) const LEASE_OBJECTS: Section = Section::new(
    "Leases",
    "Lease objects of the Kubernetes API server; everything has a default.",
    &[&NAMESPACE, &NAME_PREFIX, &COMMAND_TIMEOUT, &GUARD],
)
.with(Rule::MayBeEmpty);

/// `period`: that within which a role renews.
pub(super) fn read(s: &Reader<'_>, period: Option<Duration>) -> KubernetesConfig {
    let guard = s.get(&GUARD);
    if guard == Guard::Off {
        s.at(&GUARD).warning("off: when a Lease object is deleted under its leader, two replicas may lead at once");
    }
    let command_timeout = s.given(&COMMAND_TIMEOUT).unwrap_or_else(|| timeout_within(COMMAND_TIMEOUT_USUAL, period));
    KubernetesConfig { namespace: s.given(&NAMESPACE), name_prefix: s.get(&NAME_PREFIX), command_timeout, guard }
}

fn label(text: &str) -> Result<String, String> {
    // The same rule as for roles, which are the other part of the name.
    match RoleName::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("is not a DNS label; use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or \
                       digit"
            .to_owned()),
    }
}

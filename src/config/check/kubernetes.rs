//! `store.kubernetes:`

use std::time::Duration;

use super::Checker;
use super::store::Kept;
use crate::config::model::{KubernetesConfig, PREFIX, RoleConfig};
use crate::config::position::Path;
use crate::config::raw::{RawLeases, Scalar};
use crate::protocol::RoleName;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

impl Checker<'_> {
    pub(super) fn leases(&mut self, raw: &RawLeases, roles: &[RoleConfig], path: &Path) -> Option<KubernetesConfig> {
        let namespace = self.label(raw.namespace.as_ref(), &path.key("namespace"));
        let name_prefix = self.label(raw.name_prefix.as_ref(), &path.key("namePrefix"));
        let timeout_path = path.key("commandTimeout");
        let kept = Kept::Leases(roles);
        let command_timeout = self.command_timeout(raw.command_timeout.as_ref(), COMMAND_TIMEOUT, kept, &timeout_path);
        let careless = "off: when a Lease object is deleted under its leader, two replicas may lead at once";
        let guard = self.guard(raw.guard.as_ref(), careless, &path.key("guard"));
        Some(KubernetesConfig {
            namespace,
            name_prefix: name_prefix.unwrap_or_else(|| PREFIX.to_owned()),
            command_timeout: command_timeout?,
            guard,
        })
    }

    /// A DNS label, as namespaces and the parts of an object's name are.
    fn label(&mut self, given: Option<&Scalar>, path: &Path) -> Option<String> {
        let value = given?;
        let text = self.text(given, path)?;
        // The same rule as for roles, which are the other part of the name.
        if RoleName::new(text).is_err() {
            let shown = self.shown(value, path);
            let message = format!(
                "{shown} is not a DNS label; use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or \
                 digit"
            );
            self.problem(path, message);
            return None;
        }
        Some(text.to_owned())
    }
}

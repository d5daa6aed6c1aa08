use crate::isolation::launch::{End, poll_until};
use anyhow::{Result, anyhow};
use rustix::process::Signal;
use std::{collections::HashMap, time::Duration};
use zbus::{Error, OwnedObjectPath, OwnedVariant, Variant, fdo, proxy::CacheProperties};

/// A thrashing machine answers late.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for systemd to return after it re-executes itself, as in upgrades.
const SYSTEMD_ABSENCE_TIMEOUT: Duration = Duration::from_secs(60);

pub type Properties = Vec<(&'static str, Variant<'static>)>;

/// Row of `ListUnits`: name, description, load, active and sub state, followed, path, job, its type
/// and path.
type ListedUnit = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    fn start_transient_unit(
        &self,
        unit: &str,
        mode: &str,
        properties: &Properties,
        others: &[(&str, Vec<(&str, Variant<'_>)>)],
    ) -> zbus::Result<OwnedObjectPath>;
    fn set_unit_properties(
        &self,
        unit: &str,
        runtime: bool,
        properties: &Properties,
    ) -> zbus::Result<()>;
    fn stop_unit(&self, unit: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn kill_unit(&self, unit: &str, who: &str, signal: i32) -> zbus::Result<()>;
    fn reset_failed_unit(&self, unit: &str) -> zbus::Result<()>;
    fn unref_unit(&self, unit: &str) -> zbus::Result<()>;
    fn get_unit(&self, unit: &str) -> zbus::Result<OwnedObjectPath>;
    fn list_units_by_patterns(
        &self,
        states: &[&str],
        patterns: &[&str],
    ) -> zbus::Result<Vec<ListedUnit>>;
    #[zbus(property)]
    fn environment(&self) -> zbus::Result<Vec<String>>;
    #[zbus(property)]
    fn version(&self) -> zbus::Result<String>;
}

#[zbus::proxy(
    interface = "org.freedesktop.DBus.Properties",
    default_service = "org.freedesktop.systemd1"
)]
trait UnitProperties {
    /// Empty: all interfaces.
    fn get_all(&self, interface: &str) -> zbus::Result<HashMap<String, OwnedVariant>>;
}

/// A connection to systemd, whose references keep units loaded.
#[derive(Clone)]
pub struct Bus {
    manager: ManagerProxy<'static>,
}

pub struct Unit(HashMap<String, OwnedVariant>);

impl Bus {
    pub fn connect() -> Result<Self> {
        let connect = async {
            let connection = zbus::connection::Builder::system()
                .method_timeout(CALL_TIMEOUT)
                .build()
                .await?;
            ManagerProxy::builder(&connection)
                .cache_properties(CacheProperties::No)
                .build()
                .await
        };
        let manager = zbus::block_on(connect).map_err(|error| {
            let advice =
                "is systemd running here, with dbus? Without them use the launcher `direct`";
            anyhow!("the system bus does not answer: {error}; {advice}")
        })?;
        Ok(Self { manager })
    }

    /// systemd's own variables, which every service inherits.
    pub fn environment(&self) -> Result<Vec<String>> {
        Ok(self
            .call("systemd", async |manager| manager.environment().await)?
            .unwrap_or_default())
    }

    pub fn version(&self) -> Result<Option<u32>> {
        let text = zbus::block_on(self.manager.version())
            .map_err(|error| describe_error("systemd", &error))?;
        Ok(version(&text))
    }

    /// Queues the start.
    pub fn start(&self, unit: &str, properties: &Properties) -> Result<()> {
        // The call is not retried: without an answer, it is unknown whether it was executed.
        let started =
            zbus::block_on(
                self.manager
                    .start_transient_unit(unit, "fail", properties, &[]),
            );
        started
            .map(drop)
            .map_err(|error| describe_error(unit, &error))
    }

    /// Changes properties until the next boot.
    pub fn set(&self, unit: &str, properties: &Properties) -> Result<()> {
        self.call(unit, async |manager| {
            manager.set_unit_properties(unit, true, properties).await
        })
        .map(drop)
    }

    /// Queues the stop. A missing unit is no error.
    pub fn stop(&self, unit: &str) -> Result<()> {
        self.call(unit, async |manager| {
            manager.stop_unit(unit, "replace").await
        })
        .map(drop)
    }

    /// Signals all processes of the unit. A missing process is no error.
    pub fn kill(&self, unit: &str, signal: Signal) -> Result<()> {
        self.call(unit, async |manager| {
            manager.kill_unit(unit, "all", signal.as_raw()).await
        })
        .map(drop)
    }

    pub fn reset(&self, unit: &str) -> Result<()> {
        self.call(unit, async |manager| manager.reset_failed_unit(unit).await)
            .map(drop)
    }

    /// A missing reference is no error. An earlier process of ours may have started the unit, and
    /// systemd drops the references of a process that ends.
    pub fn unref_unit(&self, unit: &str) -> Result<()> {
        self.call(unit, async |manager| manager.unref_unit(unit).await)
            .map(drop)
    }

    /// Names of matching units that are active, starting, stopping or failed.
    pub fn list(&self, pattern: &str) -> Result<Vec<String>> {
        let states = [
            "active",
            "reloading",
            "activating",
            "deactivating",
            "failed",
        ];
        let units = self.call(pattern, async |manager| {
            manager.list_units_by_patterns(&states, &[pattern]).await
        })?;
        Ok(units.into_iter().flatten().map(|(name, ..)| name).collect())
    }

    pub fn unit(&self, unit: &str) -> Result<Option<Unit>> {
        self.call(unit, async |manager| {
            let path = manager.get_unit(unit).await?;
            UnitPropertiesProxy::new(manager.inner().connection(), path)
                .await?
                .get_all("")
                .await
                .map(Unit)
        })
    }

    /// Retries while systemd is absent, so it is only for idempotent calls. `None` if the unit, its
    /// process or our reference does not exist.
    fn call<T>(
        &self,
        subject: &str,
        call: impl AsyncFn(&ManagerProxy<'static>) -> zbus::Result<T>,
    ) -> Result<Option<T>> {
        let mut last_error = Error::InvalidReply;
        let answered = poll_until(SYSTEMD_ABSENCE_TIMEOUT, || {
            Ok(match zbus::block_on(call(&self.manager)) {
                Err(error) if is_systemd_absent(&error) => {
                    last_error = error;
                    None
                }
                answered => Some(answered),
            })
        })?;
        match answered.unwrap_or(Err(last_error)) {
            Err(error) if is_gone(&error) => Ok(None),
            answer => answer
                .map(Some)
                .map_err(|error| describe_error(subject, &error)),
        }
    }
}

impl Unit {
    pub fn is_down(&self) -> bool {
        matches!(self.text("ActiveState"), Some("inactive" | "failed"))
    }

    pub fn is_settled(&self) -> bool {
        self.get::<(u32, OwnedObjectPath)>("Job")
            .is_none_or(|(id, _)| id == 0)
    }

    /// Whether the program of a `Type=exec` service was executed. A short one may never have been
    /// active. Exit codes from 200 on are taken for systemd's own failures.
    pub fn was_executed(&self) -> bool {
        self.get::<u64>("ActiveEnterTimestampMonotonic")
            .is_some_and(|time| time > 0)
            || matches!(self.ended(), Some(End::Code(..200) | End::Signal(_)))
    }

    /// Relative to the root of the hierarchy.
    pub fn cgroup(&self) -> Option<&str> {
        self.text("ControlGroup")
    }

    pub fn result(&self) -> Option<&str> {
        self.text("Result")
    }

    pub fn main_pid(&self) -> Option<u32> {
        let pid = |name| self.get::<u32>(name).filter(|pid| *pid > 1);
        pid("MainPID").or_else(|| pid("ExecMainPID"))
    }

    pub fn ended(&self) -> Option<End> {
        let status = self.get("ExecMainStatus")?;
        // A `CLD_` code of `waitid(2)`.
        match self.get::<i32>("ExecMainCode")? {
            1 => Some(End::Code(status)),
            2 | 3 => Some(End::Signal(status)),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|text: &&str| !text.is_empty())
    }

    fn get<'v, T>(&'v self, name: &str) -> Option<T>
    where
        T: TryFrom<&'v Variant<'v>, Error: Into<Error>>,
    {
        self.0.get(name)?.downcast_ref().ok()
    }
}

/// The leading number of a version such as `252.30-1~deb12u2` or `v256`.
fn version(text: &str) -> Option<u32> {
    text.trim_start_matches('v')
        .split(|letter: char| !letter.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn is_gone(error: &Error) -> bool {
    match error {
        Error::MethodError(name, ..) => {
            let kind = name.as_str().strip_prefix("org.freedesktop.systemd1.");
            matches!(kind, Some("NoSuchUnit" | "NoSuchProcess" | "NotReferenced"))
        }
        Error::FDO(error) => {
            matches!(
                **error,
                fdo::Error::UnknownObject(_) | fdo::Error::UnixProcessIdUnknown(_)
            )
        }
        _ => false,
    }
}

fn is_systemd_absent(error: &Error) -> bool {
    matches!(error, Error::FDO(error) if matches!(
        **error,
        fdo::Error::NoReply(_) | fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_)
    ))
}

fn describe_error(subject: &str, error: &Error) -> anyhow::Error {
    let explanation = match error {
        Error::MethodError(name, ..) if *name == "org.freedesktop.systemd1.UnitExists" => {
            "it is there already; `stop` the experiment to remove what is left of it"
        }
        Error::MethodError(..) => "systemd refuses",
        Error::FDO(error) => match **error {
            fdo::Error::AccessDenied(_)
            | fdo::Error::AuthFailed(_)
            | fdo::Error::InteractiveAuthorizationRequired(_) => {
                "run this as root, or let polkit allow it"
            }
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => {
                "systemd does not run here; use the launcher `direct`"
            }
            _ => "systemd refuses",
        },
        Error::InputOutput(_) => "the system bus does not answer any more",
        _ => "systemd's answer is not understood",
    };
    anyhow!("{subject}: {explanation} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::fdo;

    #[test]
    fn a_systemd_refusal_contains_a_remedy() {
        let denied = zbus::Error::from(fdo::Error::AccessDenied("no".to_owned()));
        assert!(
            describe_error("a.service", &denied)
                .to_string()
                .contains("as root")
        );
        let nobody = zbus::Error::from(fdo::Error::ServiceUnknown("no".to_owned()));
        assert!(
            describe_error("a.service", &nobody)
                .to_string()
                .contains("direct")
        );
        assert!(
            describe_error("a.service", &zbus::Error::InvalidReply)
                .to_string()
                .starts_with("a.service: ")
        );
    }

    fn unit(values: &[(&str, Variant<'static>)]) -> Unit {
        let owned = |value: &Variant<'static>| value.try_to_owned().unwrap();
        Unit(
            values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), owned(value)))
                .collect(),
        )
    }

    #[test]
    fn a_systemd_unit_reports_its_process_and_exit_result() {
        let ended = [
            ("MainPID", Variant::from(0_u32)),
            ("ExecMainPID", Variant::from(77_u32)),
            ("ExecMainCode", Variant::from(2_i32)),
            ("ExecMainStatus", Variant::from(9_i32)),
            ("Result", Variant::from("oom-kill")),
            ("ActiveState", Variant::from("failed")),
        ];
        let unit = unit(&ended);
        assert_eq!(
            (unit.main_pid(), unit.ended(), unit.result()),
            (Some(77), Some(End::Signal(9)), Some("oom-kill"))
        );
        assert!(unit.is_down() && unit.is_settled() && unit.was_executed());
    }

    #[test]
    fn an_immediately_exiting_program_was_executed_but_a_missing_one_was_not() {
        for (status, executed) in [(0_i32, true), (3, true), (203, false), (217, false)] {
            let ended = [
                ("ExecMainCode", Variant::from(1_i32)),
                ("ExecMainStatus", Variant::from(status)),
            ];
            assert_eq!(unit(&ended).was_executed(), executed, "{status}");
        }
    }

    #[test]
    fn systemd_replies_of_other_types_are_ignored() {
        let names = [
            "MainPID",
            "ExecMainPID",
            "ExecMainCode",
            "ExecMainStatus",
            "ControlGroup",
            "Result",
            "ActiveState",
            "Job",
        ];
        for unit in [
            unit(&names.map(|name| (name, Variant::from(true)))),
            unit(&[]),
        ] {
            assert_eq!(
                (unit.main_pid(), unit.ended(), unit.result(), unit.cgroup()),
                (None, None, None, None)
            );
            assert!(!unit.is_down() && !unit.was_executed());
        }
    }
}

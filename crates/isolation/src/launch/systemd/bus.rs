//! What is asked of systemd over the system bus, and its answers as types.

use super::super::Error;
use super::super::wait::wait;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;
use zbus::wire::DynamicType;
use zbus::{Connection, Message, OwnedObjectPath, OwnedVariant, Variant};

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "/org/freedesktop/systemd1";
const MANAGER_INTERFACE: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// A machine that thrashes answers late.
const PATIENCE: Duration = Duration::from_secs(60);

/// For systemd to come back when it executes itself anew, as upgrades have it do.
const ABSENCE: Duration = Duration::from_secs(60);

/// `CLD_EXITED` of `waitid(2)`.
pub(super) const EXITED: i32 = 1;

/// Properties of a unit to be made, with their names.
pub(super) type Properties = Vec<(&'static str, Variant<'static>)>;

/// A unit as `ListUnits` tells it: name, description, load, active and sub state, followed, path, job, its type and path.
type Listed = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// The connection. It also holds the references of units that shall not be forgotten.
#[derive(Debug, Clone)]
pub(super) struct Bus {
    connection: Connection,
}

/// A unit that is loaded.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    common: HashMap<String, OwnedVariant>,
    own: HashMap<String, OwnedVariant>,
}

impl Bus {
    /// # Errors
    /// There is no system bus, or nobody on it who is systemd.
    pub(super) fn connect() -> Result<Self, Error> {
        let build = zbus::connection::Builder::system().method_timeout(PATIENCE).build();
        let connection = zbus::block_on(build).map_err(|error| {
            let advice = "is systemd running here, with dbus? Without them use the launcher `direct`";
            Error::Refused(format!("the system bus does not answer: {error}; {advice}"))
        })?;
        Ok(Self { connection })
    }

    /// systemd's own variables, which every service gets.
    pub(super) fn environment(&self) -> Result<Vec<String>, Error> {
        let variables = self.own()?.remove("Environment").and_then(|value| Vec::<String>::try_from(value).ok());
        Ok(variables.unwrap_or_default())
    }

    /// systemd's version; `None` if it does not say.
    pub(super) fn version(&self) -> Result<Option<u32>, Error> {
        Ok(text(&self.own()?, "Version").and_then(version))
    }

    /// What systemd says of itself.
    fn own(&self) -> Result<HashMap<String, OwnedVariant>, Error> {
        let reply = self.call_once(MANAGER, PROPERTIES, "GetAll", &(MANAGER_INTERFACE,));
        let read = reply.and_then(|reply| reply.body().deserialize::<HashMap<String, OwnedVariant>>());
        read.map_err(|error| words("systemd", &error))
    }

    /// Makes a unit and queues its start.
    pub(super) fn start(&self, unit: &str, properties: &Properties) -> Result<(), Error> {
        let none: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
        let body = (unit, "fail", properties, none);
        // Nobody knows whether it was done if there is no answer, so it is not asked twice.
        let reply = self.call_once(MANAGER, MANAGER_INTERFACE, "StartTransientUnit", &body);
        reply.map(drop).map_err(|error| words(unit, &error))
    }

    /// Queues its stop. That it is not there is no error.
    pub(super) fn stop(&self, unit: &str) -> Result<(), Error> {
        self.unless_gone(unit, "StopUnit", &(unit, "replace"))
    }

    /// Sends a signal to `whom`: `main` or `all`. That nobody is there is no error.
    pub(super) fn kill(&self, unit: &str, whom: &str, signal: i32) -> Result<(), Error> {
        self.unless_gone(unit, "KillUnit", &(unit, whom, signal))
    }

    /// Lets systemd forget its failure.
    pub(super) fn reset(&self, unit: &str) -> Result<(), Error> {
        self.unless_gone(unit, "ResetFailedUnit", &(unit,))
    }

    /// Lets systemd forget that this connection wanted it to be kept.
    pub(super) fn release(&self, unit: &str) -> Result<(), Error> {
        // It may be somebody else's, from a program that is gone.
        self.manager("UnrefUnit", &(unit,)).map(drop).or_else(|error| match &error {
            zbus::Error::MethodError(..) => Ok(()),
            _ => Err(words(unit, &error)),
        })
    }

    /// Names of the units that match a pattern and are there, or have failed and are not forgotten; sorted.
    pub(super) fn list(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let states = ["active", "reloading", "activating", "deactivating", "failed"];
        let listed = self
            .manager("ListUnitsByPatterns", &(states.as_slice(), [pattern].as_slice()))
            .and_then(|reply| reply.body().deserialize::<Vec<Listed>>())
            .map_err(|error| words(pattern, &error))?;
        let mut names: Vec<String> = listed.into_iter().map(|(name, ..)| name).collect();
        names.sort();
        Ok(names)
    }

    /// `None`: it is not loaded.
    pub(super) fn unit(&self, unit: &str) -> Result<Option<Unit>, Error> {
        self.look(unit).or_else(|error| if is_gone(&error) { Ok(None) } else { Err(words(unit, &error)) })
    }

    fn look(&self, unit: &str) -> Result<Option<Unit>, zbus::Error> {
        let path: OwnedObjectPath = self.manager("GetUnit", &(unit,))?.body().deserialize()?;
        let own = if unit.ends_with(".slice") { "Slice" } else { "Service" };
        Ok(Some(Unit {
            common: self.properties(path.as_str(), &format!("{SYSTEMD}.Unit"))?,
            own: self.properties(path.as_str(), &format!("{SYSTEMD}.{own}"))?,
        }))
    }

    fn properties(&self, path: &str, interface: &str) -> Result<HashMap<String, OwnedVariant>, zbus::Error> {
        self.call(path, PROPERTIES, "GetAll", &(interface,))?.body().deserialize()
    }

    fn unless_gone<B: Serialize + DynamicType>(&self, unit: &str, method: &str, body: &B) -> Result<(), Error> {
        match self.manager(method, body) {
            Err(error) if !is_gone(&error) => Err(words(unit, &error)),
            _ => Ok(()),
        }
    }

    fn manager<B: Serialize + DynamicType>(&self, method: &str, body: &B) -> Result<Message, zbus::Error> {
        self.call(MANAGER, MANAGER_INTERFACE, method, body)
    }

    /// What may be asked twice.
    fn call<B: Serialize + DynamicType>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, zbus::Error> {
        let mut absent = None;
        let answered = wait(ABSENCE, || match self.call_once(path, interface, method, body) {
            Err(error) if is_away(&error) => {
                absent = Some(error);
                Ok(None)
            }
            answered => answered.map(Some),
        })?;
        answered.ok_or_else(|| absent.unwrap_or(zbus::Error::InvalidReply))
    }

    fn call_once<B: Serialize + DynamicType>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, zbus::Error> {
        zbus::block_on(self.connection.call_method(Some(SYSTEMD), path, Some(interface), method, body))
    }
}

impl Unit {
    /// It has ended, or never began.
    pub(super) fn is_down(&self) -> bool {
        matches!(text(&self.common, "ActiveState"), Some("inactive" | "failed"))
    }

    /// Nothing is queued for it.
    pub(super) fn is_settled(&self) -> bool {
        let job = self.common.get("Job").and_then(|job| job.downcast_ref::<(u32, OwnedObjectPath)>().ok());
        job.is_none_or(|(id, _)| id == 0)
    }

    /// The service's program was executed. One that ended at once may never have been active; what systemd ends with when
    /// it cannot execute a program are codes from 200 on.
    pub(super) fn was_executed(&self) -> bool {
        let at = self.common.get("ActiveEnterTimestampMonotonic").and_then(|at| at.downcast_ref::<u64>().ok());
        at.is_some_and(|at| at > 0) || self.ended().is_some_and(|(code, status)| code != EXITED || status < 200)
    }

    /// The folder of its cgroup below the root of the hierarchy.
    pub(super) fn cgroup(&self) -> Option<&str> {
        text(&self.own, "ControlGroup").filter(|path| !path.is_empty())
    }

    /// Of a service.
    pub(super) fn result(&self) -> Option<&str> {
        text(&self.own, "Result").filter(|result| !result.is_empty())
    }

    /// The process that the service runs, or was.
    pub(super) fn main_pid(&self) -> Option<u32> {
        let pid = |name| self.own.get(name).and_then(|pid| pid.downcast_ref::<u32>().ok()).filter(|pid| *pid > 1);
        pid("MainPID").or_else(|| pid("ExecMainPID"))
    }

    /// How the service's process ended: a `CLD_` code as of `waitid(2)`, and its exit code or signal.
    pub(super) fn ended(&self) -> Option<(i32, i32)> {
        let number = |name| self.own.get(name).and_then(|number| number.downcast_ref::<i32>().ok());
        number("ExecMainCode").filter(|code| *code > 0).zip(number("ExecMainStatus"))
    }
}

fn text<'a>(properties: &'a HashMap<String, OwnedVariant>, name: &str) -> Option<&'a str> {
    properties.get(name)?.downcast_ref::<&str>().ok()
}

/// The number that a version begins with, as in `252.30-1~deb12u2` or `v256`.
fn version(text: &str) -> Option<u32> {
    let text = text.trim_start_matches('v');
    text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The unit, or its process, is not there (any more).
fn is_gone(error: &zbus::Error) -> bool {
    match error {
        zbus::Error::MethodError(name, ..) => {
            let kind = name.as_str().strip_prefix("org.freedesktop.systemd1.");
            matches!(kind, Some("NoSuchUnit" | "NoSuchProcess"))
        }
        zbus::Error::FDO(error) => {
            matches!(**error, zbus::fdo::Error::UnknownObject(_) | zbus::fdo::Error::UnixProcessIdUnknown(_))
        }
        _ => false,
    }
}

/// systemd is not on the bus at this moment.
fn is_away(error: &zbus::Error) -> bool {
    let zbus::Error::FDO(error) = error else { return false };
    matches!(
        **error,
        zbus::fdo::Error::NoReply(_) | zbus::fdo::Error::ServiceUnknown(_) | zbus::fdo::Error::NameHasNoOwner(_)
    )
}

/// A refusal in words that say what to do.
fn words(unit: &str, error: &zbus::Error) -> Error {
    let advice = match error {
        zbus::Error::MethodError(name, ..) => match name.as_str() {
            "org.freedesktop.systemd1.UnitExists" => {
                "it is there already; `stop` the experiment to remove what is left of it"
            }
            "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired" => "run this as root, or let polkit allow it",
            _ => "systemd refuses",
        },
        zbus::Error::FDO(error) => match **error {
            zbus::fdo::Error::AccessDenied(_)
            | zbus::fdo::Error::AuthFailed(_)
            | zbus::fdo::Error::InteractiveAuthorizationRequired(_) => "run this as root, or let polkit allow it",
            zbus::fdo::Error::ServiceUnknown(_) | zbus::fdo::Error::NameHasNoOwner(_) => {
                "systemd does not run here; use the launcher `direct`"
            }
            _ => "systemd refuses",
        },
        zbus::Error::InputOutput(_) => "the system bus does not answer any more",
        _ => "systemd's answer is not understood",
    };
    Error::Refused(format!("{unit}: {advice} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::fdo;

    #[test]
    fn a_refusal_says_what_to_do() {
        let denied = zbus::Error::from(fdo::Error::AccessDenied("no".to_owned()));
        assert!(words("a.service", &denied).to_string().contains("as root"));
        let nobody = zbus::Error::from(fdo::Error::ServiceUnknown("no".to_owned()));
        assert!(words("a.service", &nobody).to_string().contains("direct"));
        assert!(words("a.service", &zbus::Error::InvalidReply).to_string().starts_with("a.service: "));
    }

    fn unit(own: &[(&str, Variant<'static>)], common: &[(&str, Variant<'static>)]) -> Unit {
        let map = |values: &[(&str, Variant<'static>)]| {
            let owned = |value: &Variant<'static>| value.try_to_owned().unwrap();
            values.iter().map(|(name, value)| ((*name).to_owned(), owned(value))).collect()
        };
        Unit { common: map(common), own: map(own) }
    }

    #[test]
    fn a_unit_tells_its_process_and_how_it_ended() {
        let ended = [
            ("MainPID", Variant::from(0_u32)),
            ("ExecMainPID", Variant::from(77_u32)),
            ("ExecMainCode", Variant::from(2_i32)),
            ("ExecMainStatus", Variant::from(9_i32)),
            ("Result", Variant::from("oom-kill")),
        ];
        let unit = unit(&ended, &[("ActiveState", Variant::from("failed"))]);
        assert_eq!((unit.main_pid(), unit.ended(), unit.result()), (Some(77), Some((2, 9)), Some("oom-kill")));
        assert!(unit.is_down() && unit.is_settled() && unit.was_executed());
    }

    #[test]
    fn a_program_that_ended_at_once_was_executed_and_one_that_was_not_found_was_not() {
        for (status, executed) in [(0_i32, true), (3, true), (203, false), (217, false)] {
            let ended = [("ExecMainCode", Variant::from(EXITED)), ("ExecMainStatus", Variant::from(status))];
            assert_eq!(unit(&ended, &[]).was_executed(), executed, "{status}");
        }
    }

    #[test]
    fn answers_of_other_types_or_none_tell_nothing() {
        let odd = ["MainPID", "ExecMainPID", "ExecMainCode", "ExecMainStatus", "ControlGroup", "Result"];
        let odd = odd.map(|name| (name, Variant::from(true)));
        let state = [("ActiveState", Variant::from(7_u32)), ("Job", Variant::from("x"))];
        for unit in [unit(&odd, &state), unit(&[], &[])] {
            assert_eq!((unit.main_pid(), unit.ended(), unit.result(), unit.cgroup()), (None, None, None, None));
            assert!(!unit.is_down() && !unit.was_executed());
        }
    }
}

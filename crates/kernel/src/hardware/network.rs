//! Network interfaces.

use super::{HardwareReader, line};
use crate::parse::number;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// In megabits a second; `None` for one that is down, and for virtual ones, which have no speed.
    pub speed_mbit: Option<u64>,
    /// `up`, `down`, `unknown` and others, as the kernel says.
    pub state: Option<String>,
}

pub(super) fn read(reader: &mut HardwareReader<'_>) -> Vec<Interface> {
    let names: Vec<String> = reader
        .names("class/net")
        .into_iter()
        .filter(|name| name != "lo")
        .collect();
    let interface = |name: String| Interface {
        // The file answers with an error, or with -1, while there is no link: nothing is wrong then.
        speed_mbit: reader
            .root
            .read_sys(&format!("class/net/{name}/speed"), number::parse)
            .ok(),
        // Files like bonding_masters stand among the interfaces.
        state: reader
            .root
            .read_sys(&format!("class/net/{name}/operstate"), line)
            .ok(),
        name,
    };
    names
        .into_iter()
        .map(interface)
        .filter(|interface| interface.state.is_some())
        .collect()
}

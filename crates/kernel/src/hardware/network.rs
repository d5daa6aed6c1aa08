use super::HardwareReader;
use crate::{parse::number, text::only_line};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// `None` for an interface that is down, and for virtual ones.
    pub speed_mbit: Option<u64>,
    pub state: Option<String>,
}

pub fn read(reader: &mut HardwareReader<'_>) -> Vec<Interface> {
    let names = reader.names("class/net").into_iter();
    let interface = |name: String| Interface {
        // Without a link the file returns an error or -1; that is no problem.
        speed_mbit: reader
            .root
            .read_sys(&format!("class/net/{name}/speed"), number::parse)
            .ok(),
        // The folder also has files like bonding_masters.
        state: reader
            .root
            .read_sys(&format!("class/net/{name}/operstate"), only_line)
            .ok(),
        name,
    };
    names
        .filter(|name| name != "lo")
        .map(interface)
        .filter(|interface| interface.state.is_some())
        .collect()
}

use super::{IoLimit, Limits};

impl Limits {
    /// Sentences about requested limits that `actual`, read back from the kernel, does not match.
    /// The kernel rounds memory down to whole pages.
    pub fn differences(&self, actual: &Limits) -> Vec<String> {
        let amounts = [
            ("memory_max", self.memory_max, actual.memory_max),
            ("memory_high", self.memory_high, actual.memory_high),
            ("swap_max", self.swap_max, actual.swap_max),
        ];
        let amounts = amounts.map(|(name, requested, effective)| {
            difference(name, requested.map(in_pages), effective)
        });
        let cpus = difference("cpus", self.cpus.as_ref(), actual.cpus.as_ref());
        amounts
            .into_iter()
            .flatten()
            .chain(cpus)
            .chain(io_differences(&self.io, &actual.io))
            .collect()
    }
}

pub(super) fn in_pages(bytes: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    bytes / page * page
}

fn difference<T: PartialEq + std::fmt::Display>(
    what: &str,
    requested: Option<T>,
    effective: Option<T>,
) -> Option<String> {
    let count = |value: &Option<T>| value.as_ref().map_or("no limit".to_owned(), T::to_string);
    (requested != effective).then(|| {
        format!(
            "{what}: asked for {}, the kernel says {}",
            count(&requested),
            count(&effective)
        )
    })
}

fn io_differences(requested: &[IoLimit], effective: &[IoLimit]) -> Vec<String> {
    let of = |list: &[IoLimit], limit: &IoLimit| {
        list.iter()
            .find(|other| other.device == limit.device)
            .map_or([None; 4], IoLimit::amounts)
    };
    let mut all = Vec::new();
    let unrequested = effective
        .iter()
        .filter(|limit| !requested.iter().any(|other| other.device == limit.device));
    for limit in requested.iter().chain(unrequested) {
        let pairs = of(requested, limit).into_iter().zip(of(effective, limit));
        for (name, (requested, effective)) in NAMES.into_iter().zip(pairs) {
            all.extend(difference(
                &format!("{name} of {}", limit.device.display()),
                requested,
                effective,
            ));
        }
    }
    all
}

const NAMES: [&str; 4] = [
    "read_bytes",
    "write_bytes",
    "read_operations",
    "write_operations",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::CpuSet;

    #[test]
    fn rounded_limits_are_equal_and_ignored_limits_differ() {
        let page = rustix::param::page_size() as u64;
        let requested = Limits {
            memory_max: Some(5 * page + 1),
            swap_max: Some(0),
            ..Limits::default()
        };
        let mut effective = Limits {
            memory_max: Some(5 * page),
            swap_max: Some(0),
            ..Limits::default()
        };
        assert!(requested.differences(&effective).is_empty());
        effective.memory_max = Some(6 * page);
        effective.swap_max = None;
        effective.cpus = Some(CpuSet::parse("0").unwrap());
        let expected = [
            format!(
                "memory_max: asked for {}, the kernel says {}",
                5 * page,
                6 * page
            ),
            "swap_max: asked for 0, the kernel says no limit".to_owned(),
            "cpus: asked for no limit, the kernel says 0".to_owned(),
        ];
        assert_eq!(requested.differences(&effective), expected);
    }

    #[test]
    fn limits_of_devices_are_compared_by_device_in_any_order() {
        let limit = |device: &str, read: u64| IoLimit {
            device: device.into(),
            read_bytes: Some(read),
            write_bytes: None,
            read_operations: None,
            write_operations: None,
        };
        let requested = Limits {
            io: vec![limit("/a", 1), limit("/b", 2)],
            ..Limits::default()
        };
        let mut effective = Limits {
            io: vec![limit("/b", 2), limit("/a", 1)],
            ..Limits::default()
        };
        assert!(requested.differences(&effective).is_empty());
        effective.io = vec![limit("/b", 2), limit("/c", 1)];
        let expected = [
            "read_bytes of /a: asked for 1, the kernel says no limit",
            "read_bytes of /c: asked for no limit, the kernel says 1",
        ];
        assert_eq!(requested.differences(&effective), expected);
    }
}

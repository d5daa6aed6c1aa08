//! File systems, disks and UDP, from the page.

use super::Page;
use faultline_catalog::metrics::resources as m;

/// `None` where the page has no value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResourceUsage {
    /// The file system with the smallest free share: mount point, free bytes, free share.
    pub(crate) tightest: Option<(String, f64, f64)>,
    /// Seconds until the first file system is full.
    pub(crate) full: Option<f64>,
    /// A file system whose last answer is too old.
    pub(crate) silent: Option<String>,
    pub(crate) read_only: Option<bool>,
    /// The busiest disk and its utilisation.
    pub(crate) busiest: Option<(String, f64)>,
    pub(crate) drops: Option<f64>,
}

impl Page {
    pub(crate) fn resource_usage(&self) -> Option<ResourceUsage> {
        let sizes: Vec<(&str, f64)> = self.by_label(&m::FILESYSTEM_SIZE, "mountpoint").collect();
        let shares = self
            .by_label(&m::FILESYSTEM_AVAIL, "mountpoint")
            .filter_map(|(mountpoint, avail)| {
                let (_, size) = sizes
                    .iter()
                    .find(|(other, size)| *other == mountpoint && *size > 0.0)?;
                Some((mountpoint.to_owned(), avail, avail / size))
            });
        let known = |location: &str| sizes.iter().any(|(other, _)| *other == location);
        let silent = self
            .by_label(&m::FILESYSTEM_AGE, "mountpoint")
            .find(|(location, _)| !known(location));
        let known = ResourceUsage {
            silent: silent.map(|(location, _)| location.to_owned()),
            tightest: shares.min_by(|(.., a), (.., b)| a.total_cmp(b)),
            full: self
                .by_label(&m::FILESYSTEM_UNTIL_FULL, "mountpoint")
                .map(|(_, seconds)| seconds)
                .reduce(f64::min),
            read_only: self
                .by_label(&m::FILESYSTEM_READ_ONLY, "mountpoint")
                .map(|(_, is)| is == 1.0)
                .reduce(|a, b| a | b),
            busiest: self
                .by_label(&m::DISK_UTILISATION, "device")
                .max_by(|(_, a), (_, b)| a.total_cmp(b))
                .map(|(device, share)| (device.to_owned(), share)),
            drops: self.get(&m::UDP_DROPS, &[]),
        };
        (known != ResourceUsage::default()).then_some(known)
    }
}

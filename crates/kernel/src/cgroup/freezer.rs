use super::{
    locate::{CgroupFolder, CgroupVersion, ProcessCgroups},
    source::CgroupFile,
};
use crate::{ParseError, ReadError, parse::cgroup_frozen};

#[derive(Debug)]
pub struct Freezers(Vec<Freezer>);

#[derive(Debug)]
struct Freezer {
    file: CgroupFile,
    parse: fn(&[u8]) -> Result<Option<bool>, ParseError>,
    at_top: bool,
    /// The top cgroup has no such file and cannot be frozen, so it is checked only once.
    cannot_freeze: bool,
}

impl Freezers {
    pub fn new(cgroups: &ProcessCgroups) -> Self {
        let v1 = cgroups
            .freezer
            .as_ref()
            .ok()
            .filter(|cgroup| cgroup.version == CgroupVersion::V1);
        let both = [v1, cgroups.unified.as_ref().ok()].into_iter().flatten();
        // The state of a hierarchy that is not mounted here is unknown.
        Self(
            both.filter(|cgroup| cgroup.top.is_dir())
                .map(Freezer::new)
                .collect(),
        )
    }

    pub fn frozen(&mut self, buffer: &mut Vec<u8>) -> Result<Option<bool>, ReadError> {
        let mut frozen = None;
        for freezer in &mut self.0 {
            // `Some(true)` is the maximum: one frozen is enough.
            frozen = frozen.max(freezer.frozen(buffer)?);
        }
        Ok(frozen)
    }
}

impl Freezer {
    fn new(cgroup: &CgroupFolder) -> Self {
        let file = CgroupFile::in_folder(cgroup, Some("cgroup.events"), Some("freezer.state"));
        Self {
            file,
            parse: match cgroup.version {
                CgroupVersion::V2 => cgroup_frozen::parse_v2,
                CgroupVersion::V1 => cgroup_frozen::parse_v1,
            },
            at_top: cgroup.folder == cgroup.top,
            cannot_freeze: false,
        }
    }

    fn frozen(&mut self, buffer: &mut Vec<u8>) -> Result<Option<bool>, ReadError> {
        if self.cannot_freeze {
            return Ok(Some(false));
        }
        match self.file.parse(buffer, self.parse) {
            Err(ReadError::Absent { .. }) if self.at_top => {
                self.cannot_freeze = true;
                Ok(Some(false))
            }
            result => result,
        }
    }
}

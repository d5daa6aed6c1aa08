use super::CpuSet;
use anyhow::Result;

impl CpuSet {
    /// Numbers may be at most 8191.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let number = text
                    .trim()
                    .parse::<u32>()
                    .ok()
                    .filter(|number| *number < 8192);
                number.ok_or_else(|| {
                    format!("{part:?} is no CPU: write numbers and ranges, as in 0-3,8")
                })
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!(
                    "{part:?} is no range of CPUs: the smaller number comes first, as in 0-3"
                ));
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            Err(format!(
                "{text:?} has no CPU: write numbers and ranges, as in 0-3,8"
            ))
        } else {
            Ok(CpuSet(cpus))
        }
    }

    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> String {
        cpus.to_string()
    }
}

impl std::fmt::Display for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        let ranges = runs.filter_map(|run| match (run.first()?, run.last()?) {
            (first, last) if first == last => Some(first.to_string()),
            (first, last) => Some(format!("{first}-{last}")),
        });
        f.write_str(&ranges.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed_and_printed_in_kernel_format() {
        assert_eq!(CpuSet::parse("8,0-2,1").unwrap().to_string(), "0-2,8");
        assert_eq!(CpuSet::parse("3").unwrap().numbers(), [3]);
        for bad in ["", "a", "1-", "3-1", "9000", "-1"] {
            assert!(CpuSet::parse(bad).is_err(), "{bad:?}");
        }
    }
}

/// Lower limits of the classes in bytes, ascending, the first 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SizeClasses(Vec<usize>);

impl SizeClasses {
    pub(crate) fn new(limits: &[u64]) -> Option<SizeClasses> {
        let mut limits: Vec<usize> = limits.iter().map(|limit| *limit as usize).collect();
        limits.insert(0, 0);
        let is_ascending = limits.windows(2).all(|pair| pair[0] < pair[1]);
        is_ascending.then_some(SizeClasses(limits))
    }

    pub(crate) fn of(&self, records: &[&[u8]]) -> Vec<(String, Vec<usize>)> {
        let mut classes = Vec::new();
        for (class, from) in self.0.iter().enumerate() {
            let to = self.0.get(class + 1).copied();
            let within = |size: usize| size >= *from && to.is_none_or(|to| size < to);
            let indices: Vec<usize> = (0..records.len())
                .filter(|index| within(records[*index].len()))
                .collect();
            if !indices.is_empty() {
                classes.push((range(*from, to), indices));
            }
        }
        classes
    }
}

/// `250-500b`, `900-1KB`, `1KB-10KB`. As in the study, 1 KB is 1,000 bytes.
fn range(from: usize, to: Option<usize>) -> String {
    let Some(to) = to else {
        return format!("{}+", format_size(from));
    };
    let unit = if to < 1000 { "b" } else { "" };
    format!("{}-{}{unit}", format_size(from), format_size(to))
}

fn format_size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) => {
            format!("{}MB", bytes / 1_000_000)
        }
        _ if bytes >= 1000 && bytes.is_multiple_of(1000) => format!("{}KB", bytes / 1000),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_belongs_to_one_size_class_named_as_in_the_study() {
        let usual = "250,500,600,700,800,900,1000,10000,100000,1000000,10000000";
        let limits: Vec<u64> = usual
            .split(',')
            .map(|limit| limit.parse().unwrap())
            .collect();
        let classes = SizeClasses::new(&limits).unwrap();
        let sizes = [0, 249, 250, 999, 1000, 20_000, 20_000_000];
        let records: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let found = classes.of(&records);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "0-250b",
                "250-500b",
                "900-1KB",
                "1KB-10KB",
                "10KB-100KB",
                "10MB+"
            ]
        );
        assert_eq!(
            found
                .iter()
                .map(|(_, indices)| indices.len())
                .sum::<usize>(),
            sizes.len()
        );
        assert_eq!(
            (SizeClasses::new(&[5, 5]), SizeClasses::new(&[0, 5])),
            (None, None)
        );
    }
}

//! `/proc/interrupts` and `/proc/softirqs`: counters by line and CPU.
//!
//! `interrupts` has a column for each online CPU, `softirqs` for each possible one.

use crate::{
    ParseError, Parsed,
    text::{Line, lines, number, split_at_byte, words},
};

/// The kernel's counters have 32 bits and wrap. So do these sums.
#[derive(Debug, Default, PartialEq)]
pub struct CpuTable {
    pub cpus: Vec<u32>,
    /// Sum by CPU, in the order of `cpus`, of the lines whose name is a number.
    pub devices: Vec<u32>,
    /// Sum by CPU, in the order of `cpus`, of all other lines.
    pub others: Vec<u32>,
    pub rows: Vec<Row>,
}

#[derive(Debug, PartialEq)]
pub struct Row {
    /// The number or short name of an interrupt, or the kind of softirqs.
    pub name: String,
    /// Over all CPUs.
    pub sum: u32,
}

/// `None` for an empty file: container runtimes hide `/proc/interrupts` behind `/dev/null`.
///
/// # Errors
/// No line of CPUs, no line of counts, or a line without exactly one count for each CPU, which the
/// kernel writes while a CPU goes online or offline. A device's line may have too many.
pub fn parse(text: &[u8]) -> Parsed<Option<CpuTable>> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut lines = lines(text);
    let expected = "expected CPU0 and the other CPUs";
    let header = lines
        .next()
        .ok_or_else(|| ParseError::new(1, text, expected))?;
    let cpus: Option<Vec<u32>> = words(header.text).map(cpu).collect();
    let cpus = cpus
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| header.error(expected))?;
    let mut table = CpuTable {
        devices: vec![0; cpus.len()],
        others: vec![0; cpus.len()],
        cpus,
        rows: Vec::new(),
    };
    for line in lines {
        table.add(line)?;
    }
    if table.rows.is_empty() {
        return Err(header.error("expected lines of counts after it"));
    }
    Ok(Some(table))
}

fn cpu(word: &[u8]) -> Option<u32> {
    number(word.strip_prefix(b"CPU")?)
}

impl CpuTable {
    /// A counter of the whole machine (`ERR`, `MIS`) is skipped.
    fn add(&mut self, line: Line<'_>) -> Parsed<()> {
        let expected = || line.error("expected a name and a count for each CPU");
        let (name, rest) = split_at_byte(line.text, b':').ok_or_else(expected)?;
        let name = name.trim_ascii();
        let has_single_count = number::<u64>(rest.trim_ascii()).is_some();
        if has_single_count && (self.cpus.len() > 1 || matches!(name, b"ERR" | b"Err" | b"MIS")) {
            return Ok(());
        }
        let is_device = number::<u64>(name).is_some();
        let sums = if is_device {
            &mut self.devices
        } else {
            &mut self.others
        };
        let mut words = words(rest);
        let mut sum = 0_u32;
        for cpu_sum in sums {
            let count = words.next().and_then(wrapped_count).ok_or_else(expected)?;
            *cpu_sum = cpu_sum.wrapping_add(count);
            sum = sum.wrapping_add(count);
        }
        // A device's line goes on with its chip, whose name may be a number.
        if !is_device
            && words
                .next()
                .is_some_and(|word| number::<u64>(word).is_some())
        {
            return Err(expected());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.rows.push(Row { name, sum });
        Ok(())
    }
}

fn wrapped_count(word: &[u8]) -> Option<u32> {
    u32::try_from(number::<u64>(word)? & u64::from(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &[u8]) -> CpuTable {
        parse(text).unwrap().unwrap()
    }

    fn sum(table: &CpuTable, name: &str) -> Option<u32> {
        let row = table.rows.iter().find(|row| row.name == name)?;
        Some(row.sum)
    }

    #[test]
    fn captured_interrupts_are_read_without_the_errors_of_the_machine() {
        let table = table(include_bytes!("../../tests/text/linux-6.18/interrupts"));
        assert_eq!((&table.cpus[..], table.rows.len()), (&[0, 1][..], 33));
        assert_eq!(sum(&table, "36"), Some(7_789_575));
        assert_eq!(sum(&table, "LOC"), Some(71_036_253));
        assert_eq!((sum(&table, "ERR"), sum(&table, "MIS")), (None, None));
        assert!(table.devices[0] < table.others[0] / 50);
    }

    #[test]
    fn captured_softirqs_are_read() {
        let table = table(include_bytes!("../../tests/text/linux-6.18/softirqs"));
        assert_eq!((&table.cpus[..], table.rows.len()), (&[0, 1][..], 10));
        assert_eq!(sum(&table, "NET_RX"), Some(20_270_477));
        assert_eq!(table.devices, [0, 0]);
    }

    /// The words after the counts begin with anything: a chip, its number, nothing.
    #[test]
    fn the_lines_of_arm_and_unknown_kinds_are_read() {
        let table = table(
            b"           CPU0       CPU1       \n 11:          7          8     GICv3  27 Level     arch_timer\n\
              \x20 9:          1          0         0 Edge\nIPI0:         5          6       Rescheduling interrupts\n\
              NEW:          3          4\nErr:          0\n",
        );
        assert_eq!((table.devices, table.others), (vec![8, 8], vec![8, 10]));
    }

    #[test]
    fn an_offline_cpu_has_no_column_and_the_only_one_has_no_errors() {
        let three = table(b"   CPU0  CPU2  CPU511\n  1:  1  2  3  IO-APIC\nERR: 9\n");
        assert_eq!(
            (&three.cpus[..], three.devices),
            (&[0, 2, 511][..], vec![1, 2, 3])
        );
        let one = table(b"   CPU0\n  1:  1  IO-APIC\n HI: 5\nERR: 9\nMIS: 9\n");
        assert_eq!((one.devices, one.others), (vec![1], vec![5]));
    }

    #[test]
    fn five_hundred_and_twelve_columns_are_read() {
        let cpus: String = (0..512).map(|cpu| format!("CPU{cpu:<8}")).collect();
        let counts: String = (0..512).map(|cpu| format!(" {cpu:>10}")).collect();
        let table = table(format!("      {cpus}\nLOC:{counts}   Local timer\n").as_bytes());
        assert_eq!((table.cpus.len(), table.others[511]), (512, 511));
    }

    #[test]
    fn a_counter_that_passes_32_bits_wraps_as_the_kernels_do() {
        let table = table(b"CPU0 CPU1\nA: 4294967295 4294967298 x\nB: 2 1 y\n");
        assert_eq!((&table.others[..], table.rows[0].sum), (&[1, 3][..], 1));
    }

    #[test]
    fn an_empty_file_is_absent() {
        assert_eq!(parse(b""), Ok(None));
    }

    #[test]
    fn a_line_without_one_count_for_each_cpu_is_an_error() {
        for torn in ["2: 5 chip", "LOC: 5 6 7 Local"] {
            let text = format!("CPU0 CPU1\n 1: 5 6 chip\n {torn}\n");
            let error = parse(text.as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(
                (error.line, error.what),
                (3, "expected a name and a count for each CPU")
            );
        }
        for text in [
            &b"\n"[..],
            b"CPU0\n",
            b"CPU0 GPU1\n",
            b"CPU0\nnothing\n",
            b"CPUx\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

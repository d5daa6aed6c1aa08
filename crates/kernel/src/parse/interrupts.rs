//! `/proc/interrupts` and `/proc/softirqs`: counters by line and CPU.
//!
//! `interrupts` has a column for each online CPU, `softirqs` for each possible one.

use crate::ParseError;
use crate::text::{Line, lines, number, words};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTable {
    pub cpus: Vec<u32>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The number or short name of an interrupt, or the kind of softirqs.
    pub name: String,
    /// In the order of [`CpuTable::cpus`]. The kernel's counters have 32 bits and wrap.
    pub counts: Vec<u32>,
}

impl CpuTable {
    /// Modulo 2^32, in the order of [`CpuTable::cpus`].
    #[must_use]
    pub fn sums(&self) -> Vec<u32> {
        let mut sums = vec![0_u32; self.cpus.len()];
        for row in &self.rows {
            for (sum, count) in sums.iter_mut().zip(&row.counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
        sums
    }
}

impl Row {
    /// Modulo 2^32.
    #[must_use]
    pub fn sum(&self) -> u32 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.wrapping_add(*count))
    }
}

/// # Errors
/// No line of CPUs, or a line without a count for each. The kernel writes such lines while a CPU
/// goes online or offline.
pub fn parse(text: &[u8]) -> Result<CpuTable, ParseError> {
    let mut lines = lines(text);
    let expected = "expected CPU0 and the other CPUs";
    let header = lines
        .next()
        .ok_or_else(|| ParseError::new(1, text, expected))?;
    let cpus: Option<Vec<u32>> = words(header.text).map(cpu).collect();
    let cpus = cpus
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| header.error(expected))?;
    let mut rows = Vec::new();
    for line in lines {
        rows.extend(row(line, cpus.len())?);
    }
    if rows.is_empty() {
        return Err(header.error("expected lines of counts after it"));
    }
    Ok(CpuTable { cpus, rows })
}

fn cpu(word: &[u8]) -> Option<u32> {
    u32::try_from(number(word.strip_prefix(b"CPU")?)?).ok()
}

/// `None` for a counter of the whole machine: `ERR`, `MIS`.
fn row(line: Line<'_>, cpus: usize) -> Result<Option<Row>, ParseError> {
    let expected = || line.error("expected a name and a count for each CPU");
    let (name, rest) = line.split_at_byte(b':').ok_or_else(expected)?;
    let name = name.trim_ascii();
    let is_alone = number(rest.trim_ascii()).is_some();
    if is_alone && (cpus > 1 || matches!(name, b"ERR" | b"Err" | b"MIS")) {
        return Ok(None);
    }
    let counts: Vec<u32> = words(rest).map_while(count).take(cpus).collect();
    if counts.len() != cpus {
        return Err(expected());
    }
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(Some(Row { name, counts }))
}

fn count(word: &[u8]) -> Option<u32> {
    u32::try_from(number(word)? & u64::from(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'t>(table: &'t CpuTable, name: &str) -> Option<&'t [u32]> {
        let row = table.rows.iter().find(|row| row.name == name)?;
        Some(&row.counts)
    }

    #[test]
    fn captured_interrupts_are_read_without_the_errors_of_the_machine() {
        let table = parse(include_bytes!("../../tests/text/linux-6.18/interrupts")).unwrap();
        assert_eq!((&table.cpus[..], table.rows.len()), (&[0, 1][..], 33));
        assert_eq!(row(&table, "36"), Some(&[0, 7_789_575][..]));
        assert_eq!(row(&table, "LOC"), Some(&[35_479_995, 35_556_258][..]));
        assert_eq!((row(&table, "ERR"), row(&table, "MIS")), (None, None));
    }

    #[test]
    fn captured_softirqs_are_read() {
        let table = parse(include_bytes!("../../tests/text/linux-6.18/softirqs")).unwrap();
        assert_eq!((&table.cpus[..], table.rows.len()), (&[0, 1][..], 10));
        assert_eq!(row(&table, "NET_RX"), Some(&[11_350_731, 8_919_746][..]));
        assert_eq!(table.rows[3].sum(), 20_270_477);
    }

    /// The words after the counts begin with anything: a chip, its number, nothing.
    #[test]
    fn the_lines_of_arm_and_unknown_kinds_are_read() {
        let table = parse(
            b"           CPU0       CPU1       \n 11:          7          8     GICv3  27 Level     arch_timer\n\
              \x20 9:          1          0         0 Edge\nIPI0:         5          6       Rescheduling interrupts\n\
              NEW:          3          4\nErr:          0\n",
        )
        .unwrap();
        assert_eq!(table.sums(), [16, 18]);
    }

    #[test]
    fn an_offline_cpu_has_no_column_and_the_only_one_has_no_errors() {
        let table = parse(b"   CPU0  CPU2  CPU511\n  1:  1  2  3  IO-APIC\nERR: 9\n").unwrap();
        assert_eq!(
            (&table.cpus[..], table.sums()),
            (&[0, 2, 511][..], vec![1, 2, 3])
        );
        let one = parse(b"   CPU0\n  1:  1  IO-APIC\n HI: 5\nERR: 9\nMIS: 9\n").unwrap();
        assert_eq!(one.sums(), [6]);
    }

    #[test]
    fn five_hundred_and_twelve_columns_are_read() {
        let cpus: String = (0..512).map(|cpu| format!("CPU{cpu:<8}")).collect();
        let counts: String = (0..512).map(|cpu| format!(" {cpu:>10}")).collect();
        let table =
            parse(format!("      {cpus}\nLOC:{counts}   Local timer\n").as_bytes()).unwrap();
        assert_eq!((table.cpus.len(), table.rows[0].counts[511]), (512, 511));
    }

    #[test]
    fn a_counter_that_passes_32_bits_wraps_as_the_kernels_do() {
        let table = parse(b"CPU0 CPU1\nA: 4294967295 4294967298 x\nB: 2 1 y\n").unwrap();
        assert_eq!((table.sums(), table.rows[0].sum()), (vec![1, 3], 1));
    }

    #[test]
    fn a_line_of_fewer_cpus_and_a_table_without_any_are_errors() {
        let torn = parse(b"CPU0 CPU1\n 1: 5 6 chip\n 2: 5 chip\n").unwrap_err();
        assert_eq!(
            (torn.line, torn.what),
            (3, "expected a name and a count for each CPU")
        );
        for text in [
            &b""[..],
            b"\n",
            b"CPU0\n",
            b"CPU0 GPU1\n",
            b"CPU0\nnothing\n",
            b"CPUx\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

//! `faultline info`: what is in a recording, and whether it is whole.

mod phases;
mod summary;
mod text;

use crate::args::InfoArgs;
use anyhow::bail;
use faultline_command::output::{json, say};
use faultline_recording::{Recording, Salvaged, salvage};
use faultline_text::count;
use std::io::Write;
use std::path::Path;
pub use summary::Summary;

/// Prints what is in each recording. One that cannot be read is told on standard error and does not keep the others from
/// being shown; the exit code is then 1, as it is if nothing was
/// rescued.
///
/// # Errors
/// `out` cannot be written, or with `--salvage` the damaged file cannot be read or the new one not be written.
pub fn run(args: &InfoArgs, out: &mut dyn Write) -> anyhow::Result<u8> {
    if let Some(to) = &args.salvage {
        let [from] = args.files.as_slice() else {
            bail!("--salvage takes one recording, not {}", args.files.len())
        };
        return rescue(from, to, out);
    }
    let mut code = 0;
    for (i, file) in args.files.iter().enumerate() {
        match Recording::open(file).and_then(|recording| Summary::of(&recording)) {
            Ok(summary) if args.json => write!(out, "{}", json(&summary)?)?,
            Ok(summary) => {
                let between = if i > 0 { "\n" } else { "" };
                write!(out, "{between}{}", text::describe(&summary, args.manifest))?;
            }
            Err(error) => {
                say(&error.to_string());
                code = 1;
            }
        }
    }
    Ok(code)
}

fn rescue(from: &Path, to: &Path, out: &mut dyn Write) -> anyhow::Result<u8> {
    let salvaged = salvage(from, to)?;
    write!(out, "{}", rescued(&salvaged))?;
    writeln!(
        out,
        "written to {}; look at it with `faultline info {0}`",
        to.display()
    )?;
    Ok(u8::from(
        salvaged.tables.iter().all(|table| table.kept == 0),
    ))
}

/// A line for each table that had rows, then the whole.
fn rescued(salvaged: &Salvaged) -> String {
    let mut said = format!("{:<24}{:>14}{:>14}\n", "table", "rows rescued", "rows lost");
    let (mut kept, mut lost, mut unsure) = (0, 0, false);
    for table in &salvaged.tables {
        let missing = match table.lost {
            Some(0) => "none".to_owned(),
            Some(rows) => count(rows),
            None => "unknown".to_owned(),
        };
        kept += table.kept;
        lost += table.lost.unwrap_or(0);
        unsure |= table.lost.is_none();
        if table.kept > 0 || table.lost != Some(0) {
            said += &format!("{:<24}{:>14}{missing:>14}\n", table.name, count(table.kept));
        }
    }
    let at_least = if unsure { "at least " } else { "" };
    said + &format!(
        "{} rows rescued, {at_least}{} lost\n",
        count(kept),
        count(lost)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::SalvagedTable;

    #[test]
    fn what_was_rescued_and_lost_is_told_for_each_table_and_together() {
        let table = |name, kept, lost| SalvagedTable { name, kept, lost };
        let tables = vec![
            table("tick", 12_345, Some(0)),
            table("event", 3, Some(4)),
            table("pool", 0, Some(0)),
            table("process", 0, None),
        ];
        let said = rescued(&Salvaged { tables });
        let lines: Vec<Vec<&str>> = said
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["tick", "12,345", "none"]);
        assert_eq!(lines[2], ["event", "3", "4"]);
        assert_eq!(lines[3], ["process", "0", "unknown"]);
        assert_eq!(
            said.lines().last(),
            Some("12,348 rows rescued, at least 4 lost")
        );
    }
}

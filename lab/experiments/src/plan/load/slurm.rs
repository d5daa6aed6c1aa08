use crate::plan::Slurm;
use faultline_settings::{Table, several, size, text};

/// The options of the experiment itself.
const RESERVED_OPTIONS: [&str; 4] = ["--array", "--mem", "--job-name", "--no-requeue"];

pub(super) fn slurm(table: &mut Table<'_>) -> Slurm {
    Slurm {
        memory: table.take("memory", size),
        constraint: table.take("constraint", |v| quotable(text(v)?)),
        exclude: table.take("exclude", |v| quotable(text(v)?)),
        options: table
            .take("options", |v| several(v, |v| option(text(v)?)))
            .unwrap_or_default(),
    }
}

/// For a quoted word in a line of a script.
fn quotable(text: String) -> Result<String, String> {
    match text.contains(['"', '\n', '\\']) {
        true => Err(format!(
            "{text:?} has a quote, a backslash or a line end; leave it out"
        )),
        false => Ok(text),
    }
}

fn option(text: String) -> Result<String, String> {
    if RESERVED_OPTIONS
        .iter()
        .any(|reserved| text.starts_with(reserved))
    {
        return Err(format!(
            "{text:?} is the experiment's own option; leave it out"
        ));
    }
    match text.starts_with("--") && !text.contains('\n') {
        true => Ok(text),
        false => Err(format!(
            "{text:?} is no option; say it as in \"--partition=lab\""
        )),
    }
}

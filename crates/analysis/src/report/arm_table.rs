use super::cells::{count, number, table};
use super::model::{Block, Cell, Table};
use super::subject::{Part, Subject, Subjects};
use crate::measure::Numbers;

pub(crate) struct Quantity {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) decimals: u8,
    pub(crate) of: fn(&Subject<'_>, &Numbers) -> Option<f64>,
}

pub(crate) const fn quantity(
    title: &'static str,
    unit: &'static str,
    decimals: u8,
    of: fn(&Subject<'_>, &Numbers) -> Option<f64>,
) -> Quantity {
    Quantity {
        title,
        unit,
        decimals,
        of,
    }
}

pub(crate) struct Head<'h> {
    pub(crate) id: &'h str,
    pub(crate) title: &'h str,
    pub(crate) note: &'h str,
    pub(crate) part: Part,
    pub(crate) why: fn(&Subject<'_>) -> &'static str,
}

/// If arms have several runs, adds a table with one row per arm.
pub(crate) fn tables(
    subjects: &Subjects<'_>,
    head: &Head<'_>,
    quantities: &[Quantity],
) -> Vec<Block> {
    if subjects
        .all
        .iter()
        .all(|subject| head.part.of(subject).is_none())
    {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(by_run(subjects, head, quantities))];
    if subjects.arms.len() < subjects.all.len() {
        blocks.push(Block::Table(by_arm(subjects, head, quantities)));
    }
    blocks
}

fn by_run(subjects: &Subjects<'_>, head: &Head<'_>, quantities: &[Quantity]) -> Table {
    let columns: Vec<(&str, &str)> = std::iter::once(("Run", ""))
        .chain(quantities.iter().map(|q| (q.title, q.unit)))
        .collect();
    let mut table = table(
        head.id,
        head.title,
        &columns,
        &format!("{} {}", head.part.words(), head.note),
    );
    for subject in &subjects.all {
        let numbers = head.part.of(subject);
        let cells = quantities.iter().map(|quantity| match numbers {
            Some(numbers) => number(
                (quantity.of)(subject, numbers),
                quantity.decimals,
                (head.why)(subject),
            ),
            None => Cell::Missing("never at the tip".to_owned()),
        });
        table.rows.push(
            std::iter::once(Cell::Text(subject.name.clone()))
                .chain(cells)
                .collect(),
        );
    }
    table
}

fn by_arm(subjects: &Subjects<'_>, head: &Head<'_>, quantities: &[Quantity]) -> Table {
    let heads = [("Arm", ""), ("Runs", "")].into_iter();
    let columns: Vec<(&str, &str)> = heads
        .chain(quantities.iter().map(|q| (q.title, q.unit)))
        .collect();
    let note = format!(
        "Means over the runs of an arm, each run counting once; runs that never executed anything are left out where others did. {}",
        head.part.words()
    );
    let mut table = table(
        &format!("{}-by-arm", head.id),
        &format!("{}, by arm", head.title),
        &columns,
        &note,
    );
    for arm in &subjects.arms {
        let runs: Vec<&Subject<'_>> = subjects
            .of(arm)
            .filter(|subject| subjects.counts(subject))
            .collect();
        let cells = quantities.iter().map(|quantity| {
            let value = |subject: &&Subject<'_>| {
                (quantity.of)(subject, head.part.of(subject)?).filter(|value| value.is_finite())
            };
            let values: Option<Vec<f64>> = runs.iter().map(value).collect();
            match values.filter(|values| !values.is_empty()) {
                Some(values) => number(
                    Some(values.iter().sum::<f64>() / values.len() as f64),
                    quantity.decimals,
                    "",
                ),
                None if runs.is_empty() => {
                    Cell::Missing("no run of the arm executed anything".to_owned())
                }
                None => Cell::Missing("not known of every run of the arm".to_owned()),
            }
        });
        table.rows.push(
            [Cell::Text(arm.clone()), count(runs.len())]
                .into_iter()
                .chain(cells)
                .collect(),
        );
    }
    table
}

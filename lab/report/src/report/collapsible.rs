//! Collapses blocks of a section: those after a [`Block::Fold`] are hidden until opened. The first
//! table and the first timeline stay shown. A section that already has a [`Block::Fold`] does not
//! change.

use super::{
    comparison::uppercase_first,
    groups::by_key,
    model::{Block, Cell, Chart, Section},
};
use itertools::Itertools;

/// Collapsed blocks under one title, in page order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CollapsedGroup {
    ByArm,
    ByRun,
    AtTip,
    Tables,
    Figures,
}

impl CollapsedGroup {
    fn title(self) -> &'static str {
        match self {
            Self::ByArm => "By arm",
            Self::ByRun => "By run",
            Self::AtTip => "At the tip",
            Self::Tables => "More tables",
            Self::Figures => "More figures",
        }
    }
}

pub fn collapse_section(section: Section) -> Section {
    let blocks = match why_no_data(&section.blocks) {
        Some(why) => vec![Block::Text(format!("{}.", uppercase_first(&why)))],
        None => collapse_blocks(section.blocks),
    };
    Section { blocks, ..section }
}

fn collapse_blocks(blocks: Vec<Block>) -> Vec<Block> {
    if blocks.iter().any(|block| matches!(block, Block::Fold(_))) {
        return blocks;
    }
    let (table, figure) = (first_table(&blocks), first_timeline(&blocks));
    let (mut shown, mut groups) = (Vec::new(), Vec::new());
    // A text belongs to the next table or figure. Texts at the beginning belong to the section.
    let mut pending = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let has_only_texts_before = index == pending.len();
        if has_only_texts_before && !matches!(block, Block::Text(_)) {
            shown.append(&mut pending);
        }
        let group = group_of(&block);
        pending.push(block);
        match group {
            None => {}
            Some(_) if [table, figure].contains(&Some(index)) => shown.append(&mut pending),
            Some(group) => groups.extend(pending.drain(..).map(|block| (group, block))),
        }
    }
    shown.append(&mut pending);
    let mut groups = by_key(groups);
    groups.sort_by_key(|(group, _)| *group);
    for (group, collapsed) in groups {
        shown.push(Block::Fold(group.title().to_owned()));
        shown.extend(collapsed);
    }
    shown
}

fn group_of(block: &Block) -> Option<CollapsedGroup> {
    match block {
        Block::Text(_) | Block::Fold(_) => None,
        Block::Figure(_) => Some(CollapsedGroup::Figures),
        Block::Table(table) if table.id.contains("-at-tip") => Some(CollapsedGroup::AtTip),
        Block::Table(table) => Some(match table.columns.first() {
            Some(column) if column.title == "Arm" => CollapsedGroup::ByArm,
            Some(column) if column.title == "Run" => CollapsedGroup::ByRun,
            _ => CollapsedGroup::Tables,
        }),
    }
}

/// Index of the first table, or of its variant `<id>-by-arm` if the section has one.
fn first_table(blocks: &[Block]) -> Option<usize> {
    let ids = blocks.iter().map(|block| match block {
        Block::Table(table) => table.id.as_str(),
        _ => "",
    });
    let (first, id) = ids.clone().find_position(|id| !id.is_empty())?;
    let by_arm = format!("{id}-by-arm");
    ids.clone().position(|id| id == by_arm).or(Some(first))
}

fn first_timeline(blocks: &[Block]) -> Option<usize> {
    let is_timeline = |block: &Block| {
        matches!(
            block,
            Block::Figure(figure) if matches!(figure.chart, Chart::Timeline(_))
        )
    };
    blocks.iter().position(is_timeline)
}

/// The most frequent reason. `None` if there is a figure or any row has data.
fn why_no_data(blocks: &[Block]) -> Option<String> {
    let mut reasons = Vec::new();
    for block in blocks {
        match block {
            Block::Table(table) => {
                // A table by arm has the number of runs next to the arm.
                let headers = 1 + usize::from(table.id.ends_with("-by-arm"));
                for row in &table.rows {
                    reasons.extend(missing_reasons(row.get(headers..)?)?);
                }
            }
            Block::Figure(_) => return None,
            Block::Text(_) | Block::Fold(_) => {}
        }
    }
    let (why, _) = by_key(reasons.into_iter().map(|why| (why, ())))
        .into_iter()
        .max_by_key(|(_, all)| all.len())?;
    Some(why.clone())
}

/// `None` if the cells of a row have data. Zeros are data only in a row without missing cells.
fn missing_reasons(cells: &[Cell]) -> Option<Vec<&String>> {
    let mut reasons = Vec::new();
    for cell in cells {
        match cell {
            Cell::Missing(why) => reasons.push(why),
            Cell::Number { value, .. } if *value == 0.0 => {}
            _ => return None,
        }
    }
    (!reasons.is_empty()).then_some(reasons)
}

#[cfg(test)]
mod tests {
    use crate::{
        report::{Options, build, model::Block},
        run::Run,
    };

    #[test]
    fn a_section_without_data_is_one_sentence_though_an_arm_has_several_runs() {
        let run = Run {
            labels: vec![("arm".to_owned(), "a".to_owned())],
            ..Run::default()
        };
        let report = build([run.clone(), run], &Options::default());
        let mut sections = report.sections.iter();
        let tps = sections.find(|section| section.id == "tps").unwrap();
        assert_eq!(
            tps.blocks,
            [Block::Text("No datapoints were recorded.".to_owned())]
        );
    }
}

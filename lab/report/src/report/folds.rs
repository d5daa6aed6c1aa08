//! A section shows its first table and its first timeline and folds the rest, unless the section
//! already has folds.

use super::{
    comparison::uppercase_first,
    groups::by_key,
    model::{Block, Cell, Chart, Section},
};
use itertools::Itertools;

/// In the order of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FoldGroup {
    ByArm,
    ByRun,
    AtTip,
    Tables,
    Figures,
}

impl FoldGroup {
    fn title(self) -> &'static str {
        match self {
            FoldGroup::ByArm => "By arm",
            FoldGroup::ByRun => "By run",
            FoldGroup::AtTip => "At the tip",
            FoldGroup::Tables => "More tables",
            FoldGroup::Figures => "More figures",
        }
    }
}

/// A section without data becomes one sentence that says why.
pub fn folded(section: Section) -> Section {
    let blocks = match why_no_data(&section.blocks) {
        Some(why) => vec![Block::Text(format!("{}.", uppercase_first(&why)))],
        None => with_folds(section.blocks),
    };
    Section { blocks, ..section }
}

fn with_folds(blocks: Vec<Block>) -> Vec<Block> {
    if blocks.iter().any(|block| matches!(block, Block::Fold(_))) {
        return blocks;
    }
    let (table, figure) = (first_table(&blocks), first_timeline(&blocks));
    let (mut shown, mut groups) = (Vec::new(), Vec::new());
    // A text belongs to the table or figure that follows it. Texts at the begin belong to the
    // section.
    let mut texts = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        if index == texts.len() && !matches!(block, Block::Text(_)) {
            shown.append(&mut texts);
        }
        let group = group(&block);
        texts.push(block);
        match group {
            None => {}
            Some(_) if [table, figure].contains(&Some(index)) => shown.append(&mut texts),
            Some(group) => groups.extend(texts.drain(..).map(|block| (group, block))),
        }
    }
    shown.append(&mut texts);
    let mut groups = by_key(groups);
    groups.sort_by_key(|(group, _)| *group);
    for (group, folded) in groups {
        shown.push(Block::Fold(group.title().to_owned()));
        shown.extend(folded);
    }
    shown
}

/// `None` for a text.
fn group(block: &Block) -> Option<FoldGroup> {
    match block {
        Block::Text(_) | Block::Fold(_) => None,
        Block::Figure(_) => Some(FoldGroup::Figures),
        Block::Table(table) if table.id.contains("-at-tip") => Some(FoldGroup::AtTip),
        Block::Table(table) => Some(match table.columns.first() {
            Some(column) if column.title == "Arm" => FoldGroup::ByArm,
            Some(column) if column.title == "Run" => FoldGroup::ByRun,
            _ => FoldGroup::Tables,
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
    let is_timeline = |block: &Block| matches!(block, Block::Figure(figure) if matches!(figure.chart, Chart::Timeline(_)));
    blocks.iter().position(is_timeline)
}

/// The most frequent reason for missing cells. `None` if there is a figure or any row has data.
fn why_no_data(blocks: &[Block]) -> Option<String> {
    let mut reasons = Vec::new();
    for block in blocks {
        match block {
            Block::Table(table) => {
                for row in &table.rows {
                    reasons.extend(missing_reasons(row)?);
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

/// Why cells are missing; `None` if the row has data. If no cell is missing, zeros are data.
fn missing_reasons(row: &[Cell]) -> Option<Vec<&String>> {
    let mut reasons = Vec::new();
    for cell in row.iter().skip(1) {
        match cell {
            Cell::Missing(why) => reasons.push(why),
            Cell::Number { value, .. } if *value == 0.0 => {}
            _ => return None,
        }
    }
    (!reasons.is_empty()).then_some(reasons)
}

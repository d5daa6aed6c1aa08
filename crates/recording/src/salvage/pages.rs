//! A database's pages as they lie in the file, read without SQLite: a damaged page costs its own rows and no other.

use super::record::{Row, varint};
use crate::error::{At, Error};
use crate::file::{self, LONGEST_VALUE, length};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No table has rows beyond: a point every microsecond for a century.
const LAST_ROW: i64 = 1 << 52;

/// SQLite's own limit on the depth of a tree.
const DEPTH: u32 = 20;

/// Rows of a page that may lie outside of what the page above says before it is taken for another table's.
const STRAYS: usize = 2;

/// The pages of one file.
pub(super) struct Pages {
    file: File,
    size: usize,
    usable: usize,
    count: u32,
    /// Pages that gave rows. Each gives them once, so that all rows together are no more than the file can hold.
    taken: HashSet<u32>,
}

/// A page yet to be looked at, and between which numbers its rows lie: above `low`, up to `high`.
struct PendingPage {
    page: u32,
    low: i64,
    high: i64,
    depth: u32,
}

/// A row's beginning.
struct Start {
    id: i64,
    size: usize,
    local: Vec<u8>,
    overflow: Option<u32>,
}

impl Pages {
    pub(super) fn open(path: &Path) -> Result<Pages, Error> {
        let header = file::header(path).at(path)?;
        // What no database has is damage; then it is what the writer makes.
        let size = usize::try_from(file::page_size(&header)).unwrap_or(0);
        let size = if size.is_power_of_two() && (512..=65_536).contains(&size) {
            size
        } else {
            4096
        };
        let reserved = usize::from(header[20]);
        let usable = if size - reserved < 480 {
            size
        } else {
            size - reserved
        };
        let count = u32::try_from(length(path).div_ceil(size as u64)).unwrap_or(u32::MAX);
        Ok(Pages {
            file: File::open(path).at(path)?,
            size,
            usable,
            count,
            taken: HashSet::new(),
        })
    }

    /// Gives every row of the table that begins at `root`. Looks at a page once at most.
    pub(super) fn rows<E>(
        &mut self,
        root: u32,
        mut each: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut seen = HashSet::new();
        let mut places = vec![PendingPage {
            page: root,
            low: i64::MIN,
            high: i64::MAX,
            depth: 0,
        }];
        while let Some(place) = places.pop() {
            if place.depth > DEPTH || self.taken.contains(&place.page) || !seen.insert(place.page) {
                continue;
            }
            let Some(page) = self.read(place.page) else {
                continue;
            };
            let start = if place.page == 1 { file::HEADER } else { 0 };
            match page.get(start) {
                Some(5) => places.extend(self.children(&page, start, &place).into_iter().rev()),
                Some(13) => {
                    let rows = self.leaf(&page, start, &place);
                    if !rows.is_empty() {
                        self.taken.insert(place.page);
                    }
                    rows.into_iter()
                        .try_for_each(|start| each(self.whole(start)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `None` if it is not in the file, or the disk does not give it.
    fn read(&self, page: u32) -> Option<Vec<u8>> {
        if page == 0 || page > self.count {
            return None;
        }
        let mut bytes = vec![0; self.size];
        self.file
            .read_exact_at(&mut bytes, u64::from(page - 1) * self.size as u64)
            .ok()?;
        Some(bytes)
    }

    /// The pages below. A number that does not lie between its neighbours bounds nothing.
    fn children(&self, page: &[u8], start: usize, place: &PendingPage) -> Vec<PendingPage> {
        let cells = pointers(page, start, 12).filter_map(|at| {
            let below = number(page, at)?;
            Some((below, varint(page.get(at + 4..)?)?.0.cast_signed()))
        });
        let cells: Vec<(u32, i64)> = cells.collect();
        let keys: Vec<i64> = cells.iter().map(|(_, key)| *key).collect();
        let sound = ascending(&keys, place.low, place.high);
        let mut children = Vec::new();
        let (mut low, depth) = (place.low, place.depth + 1);
        for (i, (page, key)) in cells.iter().enumerate() {
            let next = || {
                keys.iter()
                    .zip(&sound)
                    .skip(i)
                    .find(|(_, sound)| **sound)
                    .map(|(key, _)| *key)
            };
            children.push(PendingPage {
                page: *page,
                low,
                high: next().unwrap_or(place.high),
                depth,
            });
            if sound.get(i) == Some(&true) {
                low = *key;
            }
        }
        let last = number(page, start + 8).map(|page| PendingPage {
            page,
            low,
            high: place.high,
            depth,
        });
        children.extend(last);
        children
    }

    /// The rows that begin on a page; none if it is another table's.
    fn leaf(&self, page: &[u8], start: usize, place: &PendingPage) -> Vec<Start> {
        let mut room = self.size;
        let begins = pointers(page, start, 8).filter_map(|at| self.start(page, at));
        // Rows that lie over each other are damage, and would make more of the page than it holds.
        let fits = |row: &Start| {
            let left = room.checked_sub(row.local.len() + 2);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let rows: Vec<Start> = begins.take_while(fits).collect();
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let sound = ascending(&ids, 0, LAST_ROW);
        let mut rows: Vec<Start> = rows
            .into_iter()
            .zip(sound)
            .filter_map(|(row, sound)| sound.then_some(row))
            .collect();
        let found = rows.len();
        rows.retain(|row| row.id > place.low && row.id <= place.high);
        if found - rows.len() > STRAYS {
            Vec::new()
        } else {
            rows
        }
    }

    fn start(&self, page: &[u8], at: usize) -> Option<Start> {
        let (size, a) = varint(page.get(at..)?)?;
        let (id, b) = varint(page.get(at + a..)?)?;
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size <= LONGEST_VALUE)?;
        if size as u64 > u64::from(self.count) * self.size as u64 {
            return None;
        }
        let begin = at + a + b;
        let local = self.local(size);
        let bytes = page
            .get(begin..begin + local)
            .filter(|_| begin + local <= self.usable)?
            .to_vec();
        let overflow = if local < size {
            Some(number(page, begin + local)?)
        } else {
            None
        };
        Some(Start {
            id: id.cast_signed(),
            size,
            local: bytes,
            overflow,
        })
    }

    /// How much of a row of `size` bytes lies on the page where it begins: as the file format says.
    fn local(&self, size: usize) -> usize {
        let most = self.usable - 35;
        if size <= most {
            return size;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let filled = least + size.saturating_sub(least) % (self.usable - 4);
        if filled <= most { filled } else { least }
    }

    /// Follows a row over its further pages, as far as they are there and no other row's.
    fn whole(&mut self, start: Start) -> Row {
        let (mut record, mut next) = (start.local, start.overflow);
        while let Some(page) = next.filter(|_| record.len() < start.size) {
            if self.taken.contains(&page) {
                break;
            }
            let Some(bytes) = self.read(page) else { break };
            self.taken.insert(page);
            let rest = bytes.get(4..self.usable).unwrap_or_default();
            record.extend_from_slice(rest.get(..start.size - record.len()).unwrap_or(rest));
            next = number(&bytes, 0);
        }
        Row {
            id: start.id,
            record,
            size: start.size,
        }
    }
}

/// Where the cells of a page begin.
fn pointers(page: &[u8], start: usize, header: usize) -> impl Iterator<Item = usize> + '_ {
    let two = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *page.get(at)?,
            *page.get(at + 1)?,
        ])))
    };
    let cells = two(start + 3).unwrap_or(0);
    (0..cells).map_while(move |i| two(start + header + 2 * i))
}

fn number(page: &[u8], at: usize) -> Option<u32> {
    let bytes: [u8; 4] = page.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// Which numbers lie between their neighbours, as all do on a page that is whole.
fn ascending(ids: &[i64], low: i64, high: i64) -> Vec<bool> {
    let sound = |i: usize, id: i64| {
        let before = i
            .checked_sub(1)
            .and_then(|i| ids.get(i))
            .is_none_or(|before| *before < id);
        let after = ids.get(i + 1).is_none_or(|after| id < *after);
        before && after && id > low && id <= high
    };
    ids.iter()
        .enumerate()
        .map(|(i, id)| sound(i, *id))
        .collect()
}

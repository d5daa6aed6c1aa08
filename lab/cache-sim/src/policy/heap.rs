const NOWHERE: u32 = u32::MAX;

pub(super) struct Heap {
    items: Vec<((u64, u64), u32)>,
    positions: Vec<u32>,
}

impl Heap {
    pub(super) fn new(programs: usize) -> Self {
        Heap {
            items: Vec::new(),
            positions: vec![NOWHERE; programs],
        }
    }

    pub(super) fn has(&self, program: u32) -> bool {
        self.positions[program as usize] != NOWHERE
    }

    pub(super) fn key(&self, program: u32) -> Option<(u64, u64)> {
        self.items
            .get(self.positions[program as usize] as usize)
            .map(|(key, _)| *key)
    }

    pub(super) fn set(&mut self, program: u32, key: (u64, u64)) {
        let index = if self.has(program) {
            self.positions[program as usize] as usize
        } else {
            self.items.len()
        };
        if index == self.items.len() {
            self.items.push((key, program));
            self.positions[program as usize] = index as u32;
        }
        self.items[index].0 = key;
        let index = self.up(index);
        self.down(index);
    }

    pub(super) fn pop(&mut self) -> Option<((u64, u64), u32)> {
        let last = self.items.len().checked_sub(1)?;
        self.swap(0, last);
        let least = self.items.pop()?;
        self.positions[least.1 as usize] = NOWHERE;
        self.down(0);
        Some(least)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.positions[self.items[a].1 as usize] = a as u32;
        self.positions[self.items[b].1 as usize] = b as u32;
    }

    fn up(&mut self, mut index: usize) -> usize {
        while index > 0 && self.items[index].0 < self.items[(index - 1) / 2].0 {
            self.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
        index
    }

    fn down(&mut self, mut index: usize) {
        loop {
            let children = [2 * index + 1, 2 * index + 2]
                .into_iter()
                .filter(|child| *child < self.items.len());
            let Some(least) = children.min_by_key(|child| self.items[*child].0) else {
                return;
            };
            if self.items[index].0 <= self.items[least].0 {
                return;
            }
            self.swap(index, least);
            index = least;
        }
    }
}

use std::ops::ControlFlow;

use crate::{
    fetch::FetchResult,
    state::{Moment, PoolOrder, State},
};

#[derive(Default)]
pub struct Session {
    live_state: State,
    /// Copy of the live state while paused.
    paused_state: Option<Box<State>>,
    pub order: PoolOrder,
    pub first_pool: usize,
    pub shows_help: bool,
    pub must_redraw: bool,
    pub must_suspend: bool,
}

impl Session {
    pub fn new(state: State) -> Self {
        Self {
            live_state: state,
            ..Self::default()
        }
    }

    pub fn add_result(&mut self, result: FetchResult, received_at: Moment) {
        self.live_state.add_result(result, received_at);
    }

    pub fn state(&self) -> &State {
        self.paused_state.as_deref().unwrap_or(&self.live_state)
    }

    pub fn is_paused(&self) -> bool {
        self.paused_state.is_some()
    }

    pub fn set_paused(&mut self, paused: bool) {
        self.paused_state = paused.then(|| Box::new(self.live_state.clone()));
    }

    pub fn order_by(&mut self, order: PoolOrder) {
        (self.order, self.first_pool) = (order, 0);
    }

    pub fn scroll(&mut self, pools: isize) {
        let last_index = self
            .state()
            .thread_pools(self.order)
            .len()
            .saturating_sub(1);
        self.first_pool = self.first_pool.saturating_add_signed(pools).min(last_index);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Key {
    Letter(char),
    Ctrl(char),
    Escape,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
}

pub fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match first {
            0x1b => {
                let key;
                (key, bytes) = escape_sequence(rest);
                keys.extend(key);
            }
            0x01..=0x1a => keys.push(Key::Ctrl(char::from(first - 1 + b'a'))),
            b' '..=b'~' => keys.push(Key::Letter(char::from(*first))),
            _ => {}
        }
    }
    keys
}

fn escape_sequence(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let [b'[' | b'O', sequence @ ..] = bytes else {
        return (Some(Key::Escape), bytes);
    };
    // Parameters, then one letter or tilde. An incomplete sequence is ignored.
    let Some(end) = sequence
        .iter()
        .position(|byte| (0x40..=0x7e).contains(byte))
    else {
        return (None, &[]);
    };
    let (key_bytes, after) = sequence.split_at(end + 1);
    let key = match key_bytes {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    (key, after)
}

/// Breaks if the key ends the program.
pub fn handle_key(session: &mut Session, key: Key) -> ControlFlow<()> {
    match key {
        Key::Letter('q' | 'Q') | Key::Ctrl('c' | 'd') => return ControlFlow::Break(()),
        Key::Letter('h' | 'H' | '?') => session.shows_help = !session.shows_help,
        Key::Letter('s') => session.order_by(session.order.next()),
        Key::Letter('f') => session.order_by(PoolOrder::Faults),
        Key::Letter('c') => session.order_by(PoolOrder::Cpu),
        Key::Letter('n') => session.order_by(PoolOrder::Name),
        Key::Letter('p' | ' ') => session.set_paused(!session.is_paused()),
        Key::Up | Key::Letter('k') => session.scroll(-1),
        Key::Down | Key::Letter('j') => session.scroll(1),
        Key::PageUp => session.scroll(-10),
        Key::PageDown => session.scroll(10),
        Key::Home | Key::Letter('g') => session.scroll(isize::MIN),
        Key::Ctrl('l') => session.must_redraw = true,
        Key::Ctrl('z') => session.must_suspend = true,
        Key::Escape if session.shows_help => session.shows_help = false,
        Key::Escape => session.set_paused(false),
        _ => {}
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn key_presses_arriving_together_are_distinguished() {
        assert_eq!(
            keys(b"hs\x1b[A\x1b[6~q"),
            [
                Key::Letter('h'),
                Key::Letter('s'),
                Key::Up,
                Key::PageDown,
                Key::Letter('q')
            ]
        );
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x03"), [Key::Ctrl('c')]);
        assert_eq!(
            keys(b"\x1bOA\x1b[1;5A\x1b[Hx"),
            [Key::Up, Key::Home, Key::Letter('x')]
        );
        assert_eq!(keys(b"\x1b[9999"), []);
    }

    proptest! {
        #[test]
        fn any_input_bytes_give_keys_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            keys(&bytes);
        }
    }
}

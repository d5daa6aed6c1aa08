//! What is looked at, and how: the state, an order, a place in the list.

use crate::fetch::Answer;
use crate::state::{Moment, Order, State};

/// One person's view.
#[derive(Debug)]
pub(crate) struct Session {
    live: State,
    /// What is shown while paused; the live state goes on.
    frozen: Option<Box<State>>,
    order: Order,
    first: usize,
    /// Whether the help lies over it.
    pub(crate) help: bool,
    /// Whether what stands on the terminal is not to be believed.
    pub(crate) redraw: bool,
    /// Whether the shell is to have the terminal for a while.
    pub(crate) suspend: bool,
}

impl Session {
    pub(crate) fn new(state: State) -> Self {
        Session {
            live: state,
            frozen: None,
            order: Order::default(),
            first: 0,
            help: false,
            redraw: false,
            suspend: false,
        }
    }

    pub(crate) fn take(&mut self, answer: Answer, at: Moment) {
        self.live.take(answer, at);
    }

    /// What is to be shown.
    pub(crate) fn state(&self) -> &State {
        self.frozen.as_deref().unwrap_or(&self.live)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.frozen = paused.then(|| Box::new(self.live.clone()));
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Orders the pools, and shows the first ones.
    pub(crate) fn order_by(&mut self, order: Order) {
        (self.order, self.first) = (order, 0);
    }

    /// How many pools are above the first one that is shown.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Moves the first one that is shown, at most to the last.
    pub(crate) fn scroll(&mut self, by: isize) {
        let most = self.state().pools(self.order).len().saturating_sub(1);
        self.first = self.first.saturating_add_signed(by).min(most);
    }
}

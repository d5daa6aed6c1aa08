use crate::{
    fetch::Answer,
    state::{Moment, Order, State},
};

#[derive(Debug)]
pub struct Session {
    live: State,
    frozen: Option<Box<State>>,
    pub order: Order,
    pub first: usize,
    pub help: bool,
    /// Whether the terminal's content may be wrong.
    pub redraw: bool,
    pub suspend: bool,
}

impl Session {
    pub fn new(state: State) -> Self {
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

    pub fn take(&mut self, answer: Answer, at: Moment) {
        self.live.take(answer, at);
    }

    pub fn state(&self) -> &State {
        self.frozen.as_deref().unwrap_or(&self.live)
    }

    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    pub fn pause(&mut self, paused: bool) {
        self.frozen = paused.then(|| Box::new(self.live.clone()));
    }

    pub fn order_by(&mut self, order: Order) {
        (self.order, self.first) = (order, 0);
    }

    pub fn scroll(&mut self, by: isize) {
        let last_index = self.state().pools(self.order).len().saturating_sub(1);
        self.first = self.first.saturating_add_signed(by).min(last_index);
    }
}

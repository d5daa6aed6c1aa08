//! `faultline cache`: what a recorded run says of program caches of other sizes.

mod address;
mod block;
mod rpc;
#[cfg(test)]
mod stand_in;

//! The port at which a simulated validator answers JSON-RPC.

use super::state::State;
use crate::http::{UnknownLength, read_body, read_headers, read_line};
use std::{
    io::{BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
};

/// Answers JSON-RPC at this port until the process ends, with a thread for each connection.
///
/// # Errors
/// The port is not free.
pub fn serve(port: u16, state: &Arc<State>) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let state = Arc::clone(state);
    std::thread::Builder::new()
        .name("solJsonRpcSvc".to_owned())
        .spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                let serving = move || converse(connection, &state).unwrap_or_default();
                drop(
                    std::thread::Builder::new()
                        .name("solRpcEl00".to_owned())
                        .spawn(serving),
                );
            }
        })?;
    Ok(())
}

/// Answers the requests of one connection until it closes or sends something that is not HTTP.
fn converse(connection: TcpStream, state: &State) -> Option<()> {
    let mut answers = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        read_line(&mut from).ok()?;
        let headers = read_headers(&mut from).ok()?;
        let body = read_body(&mut from, &headers, UnknownLength::Empty).ok()?;
        let answer = state.node_state().answer_http(&body);
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        );
        answers.write_all(head.as_bytes()).ok()?;
        if headers
            .iter()
            .any(|(name, value)| name == "connection" && value == "close")
        {
            return None;
        }
    }
}

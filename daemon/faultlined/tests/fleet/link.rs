//! A network link that can be cut.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Forwards connections. While the link is cut, no byte arrives and no connection ends, as between
/// two hosts.
pub struct Link {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    target: String,
    cut: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl Link {
    pub fn start(target: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            target,
            cut: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.forward(client);
            }
        });
        Self { address, state }
    }

    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
    }

    /// Closes every connection, because those of the cut link have lost bytes.
    pub fn restore(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
        let mut connections = self.state.connections.lock().expect("no panic");
        for connection in connections.drain(..) {
            connection.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

impl State {
    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn forward(self: &Arc<Self>, client: TcpStream) {
        let mut open = vec![client];
        if !self.is_cut() {
            // A central server that is down refuses connections, so the link does, too.
            let Ok(server) = TcpStream::connect(&self.target) else {
                return;
            };
            open.push(server);
        }
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        if let [client, server] = open.as_slice() {
            for (from, to) in [(client, server), (server, client)] {
                let (state, from, to) = (Arc::clone(self), clone(from), clone(to));
                thread::spawn(move || state.pump(from, to));
            }
        }
        self.connections.lock().expect("no panic").extend(open);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if !self.is_cut() && to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        if !self.is_cut() {
            to.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

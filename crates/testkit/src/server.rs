//! A listener on a free loopback port, with a thread for each connection.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use crate::{Error, Result};

/// Accepts connections until it is dropped. Those that are open then may be served until their clients close them.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves each connection on a thread of its own. The flag is set when the server is dropped.
    pub fn start(serve: impl Fn(TcpStream, &AtomicBool) + Send + Sync + 'static) -> Result<Self> {
        let broken = |source| Error::Connection {
            address: "127.0.0.1:0".to_owned(),
            source,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (thread_stop, serve) = (Arc::clone(&stop), Arc::new(serve));
        let acceptor = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if thread_stop.load(Ordering::Relaxed) {
                    return;
                }
                let (stop, serve) = (Arc::clone(&thread_stop), Arc::clone(&serve));
                std::thread::spawn(move || serve(connection, &stop));
            }
        });
        Ok(Self {
            address,
            stop,
            acceptor: Some(acceptor),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The acceptor sleeps in accept(): one more connection wakes it.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take()
            && woken
            && acceptor.join().is_err()
        {
            eprintln!("the acceptor of {} panicked", self.address);
        }
    }
}

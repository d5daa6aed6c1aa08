//! A scripted admin socket.

use serde_json::Value;
use std::{
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

#[derive(Clone)]
pub enum Reply {
    Text(String),
    /// Sends the pieces one after the other. The connection stays open.
    Pieces(Vec<&'static str>),
    /// Closes the connection after the text.
    Last(String),
    Never,
}

type Script = dyn Fn(&str) -> Reply + Send + Sync;

/// Listens until it is dropped. The socket's file remains, as after the kill of a validator.
pub struct Server {
    methods: Arc<Mutex<Vec<String>>>,
    _listening: JoinSet<()>,
}

impl Server {
    /// Listens at `admin.rpc` in the folder. `script` gets the method.
    pub fn start(folder: &Path, script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = UnixListener::bind(folder.join("admin.rpc")).unwrap();
        let methods: Arc<Mutex<Vec<String>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let mut listening = JoinSet::new();
        let requested = Arc::clone(&methods);
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, requested) = (Arc::clone(&script), Arc::clone(&requested));
                connections.spawn(async move { serve(stream, &*script, &requested).await });
            }
        });
        Self {
            methods,
            _listening: listening,
        }
    }

    /// The methods of all requests so far.
    pub fn methods(&self) -> Vec<String> {
        self.methods.lock().unwrap().clone()
    }
}

/// Serves requests until the connection ends.
async fn serve(
    mut stream: UnixStream,
    script: &Script,
    requested: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut request = [0; 4096];
    loop {
        let got = stream
            .read(&mut request)
            .await
            .ok()
            .filter(|got| *got > 0)?;
        let request: Value = serde_json::from_slice(&request[..got]).unwrap();
        let method = request["method"].as_str().unwrap();
        requested.lock().unwrap().push(method.to_owned());
        match script(method) {
            Reply::Text(text) => stream.write_all(text.as_bytes()).await.ok()?,
            Reply::Last(text) => return stream.write_all(text.as_bytes()).await.ok(),
            Reply::Never => {}
            Reply::Pieces(pieces) => {
                for piece in pieces {
                    stream.write_all(piece.as_bytes()).await.ok()?;
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

//! A JSON-RPC server over HTTP/1.1 whose answers a function makes.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// A result, or the code and message of an error.
pub type Answer = Result<Value, (i64, &'static str)>;

/// Starts a server and returns its URL. The threads end with the process of the test.
pub fn start(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                // Ignores a client that closes its connection.
                let _ = serve(&stream, &*answer);
            });
        }
    });
    url
}

fn serve(
    stream: &TcpStream,
    answer: &(impl Fn(&str, &Value) -> Answer + ?Sized),
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let requested: Value = serde_json::from_slice(&body)?;
        let mut output = json!({"jsonrpc": "2.0", "id": requested["id"]});
        match answer(
            requested["method"].as_str().unwrap_or_default(),
            &requested["params"],
        ) {
            Ok(result) => output["result"] = result,
            Err((code, message)) => output["error"] = json!({"code": code, "message": message}),
        }
        let body = output.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all((head + &body).as_bytes())?;
    }
}

//! Connects hyper's clients to the first address of a host that answers.

use faultline_net::ConnectError;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::net::TcpStream;
use tower_service::Service;

#[derive(Clone)]
pub struct Connector {
    pub timeout: Duration,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let timeout = self.timeout;
        Box::pin(async move {
            let default_port = if uri.scheme_str() == Some("https") {
                443
            } else {
                80
            };
            let host = uri.host().unwrap_or_default();
            let port = uri.port_u16().unwrap_or(default_port);
            let stream = faultline_net::connect(host, port, timeout).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

//! The yardstick of `GET /leader`: hyper and nothing else, with the answer that it is given. On one thread, as Baton's
//! listener is. Says its address, and ends when its input does.

use std::convert::Infallible;
use std::io::Read;
use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Answer {
    headers: [HeaderValue; 2],
    body: Bytes,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [content_type, cache_control, body] = &args[..] else { panic!("three arguments: {args:?}") };
    let header = |text: &str| HeaderValue::from_str(text).expect("a header's value");
    let answer = Answer { headers: [header(content_type), header(cache_control)], body: Bytes::from(body.clone()) };
    std::thread::spawn(|| {
        // Ends when the parent does, however it ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(accept(answer));
}

async fn accept(answer: Answer) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    println!("{}", listener.local_addr().expect("it is bound"));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let mut response = Response::new(Full::new(answer.body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, answer.headers[0].clone());
            response.headers_mut().insert(CACHE_CONTROL, answer.headers[1].clone());
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // An error is the client's.
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), service).await });
    }
}

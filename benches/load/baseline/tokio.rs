//! What one would otherwise write: tokio on one thread, and tokio-tungstenite.

use futures_util::{SinkExt, StreamExt};
use terret_ws::proto::event::write_envelope;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::HELLO;
use crate::replay::{AT, TEXT};

/// Serves until it is killed: so many frames, the same each time, to whoever says something.
pub(super) fn replay(frames: u64, each: bool) {
    let session = SessionId::parse("agent-0").unwrap();
    let mut frame = Vec::new();
    let body = Body::AssistantChunk { text: TEXT.to_owned() };
    write_envelope(&mut frame, EventId(0), &session, frames, AT, &body);
    let frame = Utf8Bytes::try_from(frame).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("listening on {}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let frame = frame.clone();
            // A client that goes away is the end of its task and of nothing else.
            tokio::task::spawn_local(
                async move { stream_to(stream, frame, frames, each).await.ok() },
            );
        }
    });
}

async fn stream_to(
    stream: TcpStream,
    frame: Utf8Bytes,
    frames: u64,
    each: bool,
) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut socket = accept_async(stream).await?;
    socket.send(Message::text(HELLO)).await?;
    while let Some(message) = socket.next().await {
        if !message?.is_text() {
            continue;
        }
        for _ in 0..frames {
            let message = Message::Text(frame.clone());
            if each { socket.send(message).await? } else { socket.feed(message).await? }
        }
        socket.flush().await?;
    }
    Ok(())
}

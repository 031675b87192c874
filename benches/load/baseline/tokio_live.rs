//! Live delivery as one would otherwise write it: tokio on one thread, a task for each connection.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use terret_ws::proto::event::write_envelope;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::{Body, TurnStatus};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::HELLO;
use super::live::BATCH;
use crate::replay::{AT, TEXT};

/// Serves until it is killed: whoever injects gets so many events, one each `period_ms`, or all as fast
/// as the socket takes them. Each is in a file before.
pub(super) fn live(folder: &Path, events: u64, period_ms: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("listening on {}", listener.local_addr().unwrap());
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let path = folder.join(format!("file-{number}"));
            // A client that goes away is the end of its task and of nothing else.
            tokio::task::spawn_local(async move {
                serve(stream, path, events, period_ms).await.ok();
            });
        }
    });
}

async fn serve(stream: TcpStream, path: PathBuf, events: u64, period_ms: u64) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let session = SessionId::parse("agent-0").unwrap();
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let (mut bytes, mut seq, mut lines) = (0, 0, Vec::new());
    let mut socket = accept_async(stream).await?;
    socket.send(Message::text(HELLO)).await?;
    while let Some(message) = socket.next().await {
        if !message?.to_text()?.contains("inject") {
            continue;
        }
        let mut ticks = interval(Duration::from_millis(period_ms.max(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut left = events;
        while left > 0 {
            let count = if period_ms == 0 { left.min(BATCH) } else { 1 };
            if period_ms > 0 {
                ticks.tick().await;
            }
            lines.clear();
            for _ in 0..count {
                seq += 1;
                left -= 1;
                let begin = lines.len();
                let body = if left == 0 {
                    Body::TurnEnd { status: TurnStatus::Completed, reason: None }
                } else {
                    Body::AssistantChunk { text: TEXT.to_owned() }
                };
                write_envelope(&mut lines, EventId(0), &session, seq, AT, &body);
                let text = std::str::from_utf8(&lines[begin..]).unwrap();
                socket.feed(Message::text(text)).await?;
                lines.push(b'\n');
            }
            file.write_all_at(&lines, bytes)?;
            bytes += lines.len() as u64;
            socket.flush().await?;
        }
    }
    Ok(())
}

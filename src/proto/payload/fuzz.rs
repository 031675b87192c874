//! The body of the fuzz target for payloads: whatever is read is written on one line and read back
//! as the same.

use super::Body;

/// The first byte chooses the type, the others are the payload.
pub fn payload(bytes: &[u8]) {
    let Some((&choice, payload)) = bytes.split_first() else { return };
    let kind = KINDS[usize::from(choice) % KINDS.len()];
    let Ok(Some(body)) = Body::parse(kind, payload) else { return };
    assert_eq!(body.kind(), kind);
    let mut written = Vec::new();
    body.write_payload(&mut written);
    assert!(written.iter().all(|&byte| byte >= 0x20), "a control character in a line");
    assert_eq!(Body::parse(kind, &written), Ok(Some(body)));
}

const KINDS: [&str; 17] = [
    super::SESSION_CREATED,
    super::TURN_START,
    super::STEP_START,
    super::USER_MESSAGE,
    super::CONTEXT_INJECTED,
    super::ASSISTANT_CHUNK,
    super::ASSISTANT_MESSAGE,
    super::TOOL_CALL,
    super::TOOL_RESULT,
    super::STEP_END,
    super::TURN_END,
    super::APPROVAL_REQUESTED,
    super::APPROVAL_RESOLVED,
    super::POLICY_UPDATED,
    super::SESSION_TITLED,
    super::SESSION_COMPACTED,
    super::SESSION_FORKED,
];

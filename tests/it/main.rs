//! One integration binary, one file a behaviour.

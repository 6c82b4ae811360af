//! Whom the controller's replies go to.

use crate::{frontend::Call, protocol::messages::MetadataRequestData};

/// Who waits for a reply.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// A request of the same kind.
    Call(Call),
    /// A Metadata request whose missing topics are being created.
    Metadata(Box<(Call, MetadataRequestData)>),
}

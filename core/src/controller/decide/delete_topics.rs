//! `DeleteTopics`, versions 1 to 6.

use std::collections::{BTreeMap, BTreeSet};

use super::{ApiError, Decision, DecisionContext, RECORDS_PER_REQUEST_MAX};
use crate::{
    controller::{
        image::MetadataImage,
        messages::{
            DeletableTopicResult, DeleteTopicsRequestData, DeleteTopicsResponseData, ErrorCode,
            own_uuid, wire_string, wire_uuid,
        },
        records::RemoveTopicV1,
    },
    ids::Uuid,
};

/// Decides on the end of topics, named or given by id.
pub fn delete_topics(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &DeleteTopicsRequestData,
    version: i16,
) -> Decision<DeleteTopicsResponseData> {
    if !context.settings(image).delete_topic_enable {
        let old = version < 3;
        let code = if old {
            ErrorCode::InvalidRequest
        } else {
            ErrorCode::TopicDeletionDisabled
        };
        return refuse_all(request, code);
    }
    let mut deletion = Deletion::default();
    deletion.read(request);
    deletion.report_duplicates();
    if request.timeout_ms <= 0 && !(deletion.names.is_empty() && deletion.ids.is_empty()) {
        return refuse_all(request, ErrorCode::RequestTimedOut);
    }
    deletion.resolve(image);
    if deletion.topics.len() > RECORDS_PER_REQUEST_MAX {
        return refuse_all(request, ErrorCode::PolicyViolation);
    }
    let mut records = Vec::with_capacity(deletion.topics.len());
    for (topic_id, name) in std::mem::take(&mut deletion.topics) {
        records.push(RemoveTopicV1 { topic_id }.into());
        deletion.report(Some(&name), topic_id, None);
    }
    let reply = DeleteTopicsResponseData {
        responses: deletion.responses,
        ..DeleteTopicsResponseData::default()
    };
    Decision { records, reply }
}

fn refuse_all(
    request: &DeleteTopicsRequestData,
    code: ErrorCode,
) -> Decision<DeleteTopicsResponseData> {
    let mut deletion = Deletion::default();
    let error = ApiError::bare(code);
    for name in &request.topic_names {
        deletion.report(Some(name.as_str()), Uuid::ZERO, Some(&error));
    }
    for topic in &request.topics {
        let name = topic.name.as_ref().map(|name| name.as_str());
        deletion.report(name, own_uuid(topic.topic_id), Some(&error));
    }
    Decision::answer(DeleteTopicsResponseData {
        responses: deletion.responses,
        ..DeleteTopicsResponseData::default()
    })
}

/// One request's topics on their way from what was written to what is meant.
#[derive(Default)]
struct Deletion {
    names: BTreeSet<String>,
    duplicate_names: BTreeSet<String>,
    ids: BTreeSet<Uuid>,
    duplicate_ids: BTreeSet<Uuid>,
    topics: BTreeMap<Uuid, String>,
    responses: Vec<DeletableTopicResult>,
}

impl Deletion {
    fn report(&mut self, name: Option<&str>, id: Uuid, error: Option<&ApiError>) {
        self.responses.push(DeletableTopicResult {
            name: name.map(wire_string),
            topic_id: wire_uuid(id),
            error_code: error.map_or(0, |error| error.code.code()),
            error_message: error.and_then(ApiError::wire_message),
            ..DeletableTopicResult::default()
        });
    }

    fn read(&mut self, request: &DeleteTopicsRequestData) {
        for name in &request.topic_names {
            self.add_name(name.as_str());
        }
        for topic in &request.topics {
            let id = own_uuid(topic.topic_id);
            match &topic.name {
                None if id == Uuid::ZERO => {
                    let error = ApiError::new(
                        ErrorCode::InvalidRequest,
                        "Neither topic name nor id were specified.",
                    );
                    self.report(None, Uuid::ZERO, Some(&error));
                }
                None => {
                    if !self.ids.insert(id) {
                        self.duplicate_ids.insert(id);
                    }
                }
                Some(name) if id == Uuid::ZERO => self.add_name(name.as_str()),
                Some(name) => {
                    let error = ApiError::new(
                        ErrorCode::InvalidRequest,
                        "You may not specify both topic name and topic id.",
                    );
                    self.report(Some(name.as_str()), id, Some(&error));
                }
            }
        }
    }

    fn add_name(&mut self, name: &str) {
        if !self.names.insert(name.to_owned()) {
            self.duplicate_names.insert(name.to_owned());
        }
    }

    fn report_duplicates(&mut self) {
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
        for name in std::mem::take(&mut self.duplicate_names) {
            self.names.remove(&name);
            self.report(Some(&name), Uuid::ZERO, Some(&error));
        }
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic id.");
        for id in self.duplicate_ids.clone() {
            self.ids.remove(&id);
            self.report(None, id, Some(&error));
        }
    }

    fn resolve(&mut self, image: &MetadataImage) {
        for id in std::mem::take(&mut self.ids) {
            match image.topic_by_id(id) {
                Some(topic) => {
                    self.topics.insert(id, topic.name().as_str().to_owned());
                }
                None => {
                    let error = ApiError::new(
                        ErrorCode::UnknownTopicId,
                        "This server does not host this topic ID.",
                    );
                    self.report(None, id, Some(&error));
                }
            }
        }
        for name in std::mem::take(&mut self.names) {
            let Some(topic) = image.topic(&name) else {
                let error = ApiError::new(
                    ErrorCode::UnknownTopicOrPartition,
                    "This server does not host this topic-partition.",
                );
                self.report(Some(&name), Uuid::ZERO, Some(&error));
                continue;
            };
            let id = topic.id();
            // Named once by id and once by name: neither is done, for the caller cannot mean both.
            if self.duplicate_ids.contains(&id) || self.topics.insert(id, name.clone()).is_some() {
                self.duplicate_ids.insert(id);
                self.topics.remove(&id);
                let error = ApiError::new(
                    ErrorCode::InvalidRequest,
                    "The provided topic name maps to an ID that was already supplied.",
                );
                self.report(Some(&name), id, Some(&error));
            }
        }
    }
}

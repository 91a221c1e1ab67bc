//! Access to a DynamoDB table.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;

/// DynamoDB table whose partition key is the text `id`, with the attribute `expires` for its time to live.
///
/// With `aws-sdk-dynamodb`, a call looks like this:
///
/// ```ignore
/// let updated = client.update_item().table_name("records")
///     .key("id", AttributeValue::S(update.id))
///     .update_expression(update.expression)
///     .condition_expression(update.condition)
///     .set_expression_attribute_values(Some(update.values.into_iter().map(to_sdk).collect()))
///     .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
///     .send().await;
/// match updated {
///     Ok(_) => Ok(Updated::Done),
///     Err(error) => match error.into_service_error() {
///         UpdateItemError::ConditionalCheckFailedException(refused) => Ok(Updated::Refused(refused.item.map(from_sdk))),
///         other => Err(other.into()),
///     },
/// }
/// ```
pub trait Table: Send + Sync + 'static {
    /// Calls `UpdateItem`. A condition that does not hold is no error, but [`Updated::Refused`].
    fn update(
        &self,
        update: Update,
    ) -> impl Future<Output = Result<Updated, Box<dyn Error + Send + Sync>>> + Send;
}

/// Item, by the names of its attributes.
pub type Item = BTreeMap<String, Attribute>;

/// Attribute of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// `S`.
    Text(String),
    /// `N`.
    Number(i64),
    /// `B`.
    Bytes(Vec<u8>),
}

/// Parameters of `UpdateItem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Partition key, `id`.
    pub id: String,
    /// `UpdateExpression`.
    pub expression: String,
    /// `ConditionExpression`.
    pub condition: String,
    /// `ExpressionAttributeValues`; their names begin with a colon.
    pub values: Item,
}

/// Result of `UpdateItem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// The item was updated.
    Done,
    /// The condition does not hold; with the current item, if there is one.
    Refused(Option<Item>),
}

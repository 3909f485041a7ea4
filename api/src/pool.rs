//! Pool: warm Pods, ready to become sandboxes.
//!
//! Every field of the status is written always (null, `[]`), so that a merge patch also empties.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::condition::{Condition, ConditionType};
use crate::number;
use crate::policy::RecycleType;
use crate::schema;

/// What a Pool keeps warm, and how much of it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "Pool",
    namespaced,
    status = "PoolStatus",
    derive = "PartialEq",
    derive = "Default",
    attr = "cfg_attr(true, serde(default))",
    doc = "Pool keeps warm Pods and hands them to sandboxes on demand.",
    printcolumn(
        name = "TOTAL",
        type_ = "integer",
        json_path = ".status.total",
        description = "Pods of the Pool that are not ending"
    ),
    printcolumn(
        name = "ALLOCATED",
        type_ = "integer",
        json_path = ".status.allocated",
        description = "Pods held by sandboxes"
    ),
    printcolumn(
        name = "AVAILABLE",
        type_ = "integer",
        json_path = ".status.available",
        description = "Pods ready to be handed out"
    ),
    printcolumn(
        name = "UPDATED",
        type_ = "integer",
        json_path = ".status.updated",
        description = "Pods of the current template"
    ),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the Pool can serve"
    ),
    printcolumn(
        name = "MAX",
        type_ = "integer",
        priority = 1,
        json_path = ".spec.capacitySpec.poolMax",
        description = "Most Pods that the Pool may have"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it can or cannot serve"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Pod template of the warm Pods: metadata and spec, every Pod field allowed and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub template: Option<Value>,
    /// How many Pods to keep.
    pub capacity_spec: CapacitySpec,
    /// How fast the buffer is refilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How fast Pods of an old template are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// What happens to a Pod when its sandbox ends. Absent: Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recycle_strategy: Option<RecycleStrategy>,
}

/// How many Pods to keep. All zeros: the Pool is empty until a sandbox asks.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.bufferMin <= self.bufferMax").message("bufferMin is above bufferMax: lower bufferMin or raise bufferMax"),
    validation = Rule::new("self.poolMin <= self.poolMax").message("poolMin is above poolMax: lower poolMin or raise poolMax"),
)]
pub struct CapacitySpec {
    /// Idle Pods to keep at least.
    #[serde(deserialize_with = "number::clamped")]
    #[schemars(range(min = 0, max = number::COUNT_MAX))]
    pub buffer_min: i32,
    /// Idle Pods to keep at most; above it idle Pods are deleted.
    #[serde(deserialize_with = "number::clamped")]
    #[schemars(range(min = 0, max = number::COUNT_MAX))]
    pub buffer_max: i32,
    /// Pods to keep at least, idle and held together.
    #[serde(deserialize_with = "number::clamped")]
    #[schemars(range(min = 0, max = number::COUNT_MAX))]
    pub pool_min: i32,
    /// Pods that may exist at most, ending ones included. Sandboxes beyond it wait.
    #[serde(deserialize_with = "number::clamped")]
    #[schemars(range(min = 0, max = number::COUNT_MAX))]
    pub pool_max: i32,
}

/// How fast the buffer is refilled.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// Most Pods that may be starting at once to refill the buffer: a number, or a percentage of the Pool such as
    /// "25%" (the default). Pods that sandboxes wait for are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<MaxUnavailable>,
}

/// How fast Pods of an old template are replaced.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Most Pods that may be not ready while rolling: a number, or a percentage of the Pool such as "25%" (the
    /// default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub max_unavailable: Option<MaxUnavailable>,
}

/// What happens to a Pod when its sandbox ends.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RecycleStrategy {
    /// Delete: the Pod goes with the sandbox. Restart: its containers are restarted and proven new before it is
    /// idle again. Noop: it is handed back as it is.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Delete"))]
    pub type_: Option<RecycleType>,
}

/// A count or a text such as `25%`. Reading is total, as for all that users write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum MaxUnavailable {
    /// So many Pods.
    Count(i64),
    /// A percentage with its sign; other texts are accepted by the API server and mean the default.
    Text(String),
}

impl<'de> Deserialize<'de> for MaxUnavailable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Number(number) => Self::Count(number::whole(&number)),
            Value::String(text) => Self::Text(text),
            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Self::Text(other.to_string())
            }
        })
    }
}

/// What the operator sees.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["revision", "total", "allocated", "available"]))]
pub struct PoolStatus {
    /// Generation of the spec that this status is about.
    pub observed_generation: i64,
    /// Revision of the current template: 16 hex digits.
    pub revision: String,
    /// Pods that are not ending.
    pub total: i32,
    /// Pods held by sandboxes.
    pub allocated: i32,
    /// Pods ready to be handed out.
    pub available: i32,
    /// Pods of the current revision.
    pub updated: i32,
    /// Who may use this ledger: term and uuid of an operator process.
    pub holder: Option<String>,
    /// Pods given to claims and not settled yet.
    pub grants: Vec<PoolGrant>,
    /// Idle Pods that are to be deleted, each "name/uid".
    pub retiring: Vec<String>,
    /// Ready: whether the Pool can serve. Zero size, refilling and being at poolMax are Ready.
    #[schemars(
        transform = pool_condition_types,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

/// Pods given to one claim: an entry of the ledger.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claim", "pods"]))]
pub struct PoolGrant {
    /// The claim, "Kind/name/uid".
    pub claim: String,
    /// Its Pods, each "index:name/uid".
    pub pods: Vec<String>,
}

fn pool_condition_types(schema: &mut Schema) {
    schema::condition_types(schema, &[ConditionType::Ready, ConditionType::Progressing]);
}

//! Pieces of schema that a derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object of any shape, or null: fields that we have no word for are kept.
///
/// `type: object` is needed: without it a CEL rule that names the field makes the API server refuse the whole CRD.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A list of objects of any shape; an element may be null.
pub(crate) fn open_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "nullable": true, "items": open_object(generator) })
}

/// A number or a text such as `25%`, or null.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true, "nullable": true })
}

/// A string that is absent or there, never null, so that rules may compare it.
pub(crate) fn plain_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// Lists the condition types that a kind may carry.
pub(crate) fn condition_types(schema: &mut Schema, types: &[crate::ConditionType]) {
    let words: Vec<&str> = types.iter().map(crate::ConditionType::as_str).collect();
    if let Some(listed) = schema.pointer_mut("/items/properties/type") {
        listed["enum"] = words.into();
    }
}

//! Texts that stand for arrays, as PostgreSQL's clients write them: `{a,"b c",NULL}`.

use crate::error::{ErrorKind, QueryError};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};
use nyala_model::array_text::array_elements;

/// The array that `value` stands for, if it is a text and `data_type` is one of arrays.
pub fn array_of_text(
    value: &ScalarValue,
    data_type: &DataType,
) -> Option<std::result::Result<ScalarValue, QueryError>> {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else { return None };
    let text = value.try_as_str().flatten()?;
    let Some(elements) = array_elements(text) else {
        let message = format!("`{text}` does not stand for an array");
        return Some(Err(QueryError::new(ErrorKind::Data, message)
            .hint("write its elements between braces, as in `{a,b}`, or ARRAY['a', 'b']")));
    };
    let values = elements.into_iter().map(|element| ScalarValue::Utf8(element).cast_to(item.data_type()));
    let array = values.collect::<Result<Vec<ScalarValue>, DataFusionError>>().and_then(|values| {
        ScalarValue::List(ScalarValue::new_list_nullable(&values, item.data_type())).cast_to(data_type)
    });
    Some(array.map_err(QueryError::from))
}

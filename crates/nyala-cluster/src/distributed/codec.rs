//! Operators of ours as they travel between nodes.

use std::sync::Arc;

use datafusion::common::{internal_datafusion_err, internal_err, not_impl_err};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, Volatility, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use nyala_engine::{Forgotten, Fragment, forget, forgotten, interrupted, is_unnamed, is_unnamed_aggregate};
use nyala_model::QualifiedName;
use prost::Message;

use super::measure;
use super::scan::HomeScanExec;

/// A scan of shared files.
#[derive(Clone, PartialEq, Message)]
struct ScanMessage {
    #[prost(string, tag = "1")]
    schema: String,
    #[prost(string, tag = "2")]
    table: String,
    /// The scan, as DataFusion encodes it.
    #[prost(bytes = "vec", tag = "3")]
    scan: Vec<u8>,
    /// The tag of each file; empty for none.
    #[prost(string, repeated, tag = "4")]
    tags: Vec<String>,
}

// The claims that a `ForgetExec` forgets, each as a byte.
const ORDER: u8 = 1;
const VALUES: u8 = 2;
const EVERYTHING: u8 = 3;

/// Sends scans of shared files, and operators that forget claims of their input. The node that gets a scan puts its own readers
/// in. Of an operator that is a mark (`measure.rs`), only the input arrives.
#[derive(Debug)]
pub struct Codec;

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        task: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A scan has no input, and every other operator that is sent has one.
        if let [input] = inputs {
            let input = Arc::clone(input);
            return match bytes {
                [] => Ok(input),
                [ORDER] => Ok(forget(input, Forgotten::Order)),
                [VALUES] => Ok(forget(input, Forgotten::Values)),
                [EVERYTHING] => Ok(forget(input, Forgotten::Everything)),
                _ => internal_err!("an operator came that is not known here"),
            };
        }
        let damaged = |error: prost::DecodeError| internal_datafusion_err!("a scan cannot be read: {error}");
        let message = ScanMessage::decode(bytes).map_err(damaged)?;
        let node = PhysicalPlanNode::decode(message.scan.as_slice()).map_err(damaged)?;
        let scan = converter.proto_to_execution_plan(&node, &PhysicalPlanDecodeContext::new(task, self))?;
        let Some(fragment) = task.session_config().get_extension::<Fragment>() else {
            return internal_err!("a scan came without its statement");
        };
        let table = QualifiedName::new(message.schema, message.table);
        let tags = message.tags.into_iter().map(|tag| Some(tag).filter(|tag| !tag.is_empty()));
        let tags: Vec<Option<String>> = tags.collect();
        let scan = fragment.adopt(&table, scan.as_ref(), tags.clone())?;
        Ok(Arc::new(HomeScanExec { scan, table, tags }))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if measure::is_mark(node.as_ref()) {
            return Ok(());
        }
        if let Some(forgotten) = forgotten(node.as_ref()) {
            bytes.push(match forgotten {
                Forgotten::Order => ORDER,
                Forgotten::Values => VALUES,
                Forgotten::Everything => EVERYTHING,
            });
            return Ok(());
        }
        let Some(home) = node.downcast_ref::<HomeScanExec>() else {
            return not_impl_err!("`{}` is not sent to other nodes", node.name());
        };
        let scan = converter.execution_plan_to_proto(&home.scan, self)?;
        let message = ScanMessage {
            schema: home.table.schema.clone(),
            table: home.table.name.clone(),
            scan: scan.encode_to_vec(),
            tags: home.tags.iter().map(|tag| tag.clone().unwrap_or_default()).collect(),
        };
        message.encode(bytes).map_err(|error| internal_datafusion_err!("a scan cannot be written: {error}"))
    }
}

/// Encodes only to see whether another node would understand: functions travel by their names, and a function of ours may have
/// the name of the one that it is made from.
#[derive(Debug)]
pub struct Checks {
    task: Arc<TaskContext>,
}

impl Checks {
    /// Checks for a session with the functions of `task`, which every node has.
    pub fn new(task: Arc<TaskContext>) -> Self {
        Self { task }
    }
}

/// Aggregates that compute the value of one window in constant time. KILL QUERY ends them between two batches; other aggregates
/// would compute a whole partition first.
const QUICK_IN_WINDOWS: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// Window functions that are encoded whole: of others, IGNORE NULLS and the reading from the end are left out.
const WHOLE_WINDOW_FUNCTIONS: [&str; 6] =
    ["cume_dist", "dense_rank", "ntile", "percent_rank", "rank", "row_number"];

fn is_known(name: &str, is_same: bool) -> Result<()> {
    match is_same {
        true => Ok(()),
        false => not_impl_err!("function `{name}` is another one on other nodes"),
    }
}

impl PhysicalExtensionCodec for Checks {
    fn try_decode(
        &self,
        _bytes: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _task: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("what is only checked is not decoded")
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        _bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match forgotten(node.as_ref()) {
            Some(_) => Ok(()),
            None => not_impl_err!("`{}` is not sent to other nodes", node.name()),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, _bytes: &mut Vec<u8>) -> Result<()> {
        // Functions that act on their session, as `pg_notify` does, are volatile; another node has no such session.
        let is_steady = function.signature().volatility != Volatility::Volatile;
        let known = self.task.udf(function.name()).is_ok_and(|known| *known == *function);
        is_known(function.name(), (known && is_steady) || is_unnamed(function))
    }

    fn try_encode_higher_order_function(
        &self,
        function: &HigherOrderUDF,
        _bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let known = self.task.higher_order_functions().get(function.name());
        is_known(function.name(), known.is_some_and(|known| **known == *function))
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, _bytes: &mut Vec<u8>) -> Result<()> {
        let name = function.name();
        let known = self.task.udaf(name);
        let is_same = known.is_ok_and(|known| match interrupted(function) {
            Some(inner) => *known == **inner && QUICK_IN_WINDOWS.contains(&name),
            None => *known == *function,
        });
        is_known(name, is_same || is_unnamed_aggregate(function))
    }

    fn try_encode_udwf(&self, function: &WindowUDF, _bytes: &mut Vec<u8>) -> Result<()> {
        let is_same = self.task.udwf(function.name()).is_ok_and(|known| *known == *function);
        is_known(function.name(), is_same && WHOLE_WINDOW_FUNCTIONS.contains(&function.name()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::physical_plan::DefaultPhysicalProtoConverter;

    use super::*;

    /// Another function under the same name, as the stored form of a measure is: its states would be misread there.
    #[test]
    fn a_function_is_sent_only_if_its_name_means_the_same_on_the_other_node() {
        let task = SessionContext::new().task_ctx();
        let checks = Checks::new(Arc::clone(&task));
        let sent = |function: &AggregateUDF| checks.try_encode_udaf(function, &mut Vec::new()).is_ok();
        let sum = task.udaf("sum").unwrap();
        let other = sum.as_ref().clone().with_aliases(["total"]);
        assert_eq!(other.name(), sum.name());
        assert!(sent(&sum) && !sent(&other));

        let sent = |function: &ScalarUDF| checks.try_encode_udf(function, &mut Vec::new()).is_ok();
        let lower = task.udf("lower").unwrap();
        let other = lower.as_ref().clone().with_aliases(["small"]);
        assert_eq!(other.name(), lower.name());
        assert!(sent(&lower) && !sent(&other));
        // A volatile function gives another value at each call, or acts on its session, which the other node does not have.
        assert!(!sent(&task.udf("uuid").unwrap()));

        // `lead` would arrive without its IGNORE NULLS.
        let sent = |function: &WindowUDF| checks.try_encode_udwf(function, &mut Vec::new()).is_ok();
        assert!(sent(&task.udwf("row_number").unwrap()) && !sent(&task.udwf("lead").unwrap()));
    }

    /// DataFusion leaves the tags out, without which the other node would take any version of a file of that size and second.
    #[test]
    fn a_scan_takes_its_table_and_the_tags_of_its_files_along() {
        let scan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let tags = vec![Some("\"a1\"".to_owned()), None];
        let home = HomeScanExec { scan, table: QualifiedName::new("mart", "sales"), tags };
        let converter = DefaultPhysicalProtoConverter {};
        let mut bytes = Vec::new();
        Codec.try_encode(Arc::new(home), &mut bytes, &converter).unwrap();
        let message = ScanMessage::decode(bytes.as_slice()).unwrap();
        assert_eq!((message.schema.as_str(), message.table.as_str()), ("mart", "sales"));
        assert_eq!(message.tags, ["\"a1\"", ""]);
        // A scan is decoded only in the session of its statement, which has the readers of this node.
        let task = SessionContext::new().task_ctx();
        let error = Codec.try_decode(&bytes, &[], &task, &converter).unwrap_err().to_string();
        assert!(error.contains("a scan came without its statement"), "{error}");
    }
}

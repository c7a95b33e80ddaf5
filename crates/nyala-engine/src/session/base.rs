//! The state that every snapshot begins with: settings, functions and rules, and no table.

use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};
use datafusion::prelude::{SessionConfig, SessionContext};
use nyala_cube::scan::{DamageReports, FileReads, HotCuboids};
use nyala_model::config::QueryConfig;
use nyala_sql::error::Result;
use nyala_sql::functions::{JsonOperators, register};
use nyala_sql::semantics::{
    DecimalsMeetFloats, IntervalsInOrder, MeaningsOf, Phase, TimesOfOneUnit, UnknownTypes, WrittenTypes,
};
use nyala_sql::statement::PlanBudget;

use super::context_rule::ContextRule;
use super::derived_values::DerivedValues;
use super::distinct_sums::keep_sum_types;
use super::extension::SessionExtension;
use super::interruptible_rules::{Interruptible, InterruptibleAnalysis};
use super::keys::{KeysOfTables, WithoutKeys, without_keys_before};
use super::null_safe_joins::keep_null_equality;
use super::physical_rules::PhysicalRules;
use super::pinned_filters::pin_filters;
use super::planner::NyalaPlanner;
use super::qualified_constants::keep_qualifiers;
use super::settings::NyalaOptions;
use super::shared_queries::SharedQueries;
use super::union_names::keep_union_names;
use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};
use super::{DATABASE, DEFAULT_SCHEMA};

/// The state that all snapshots begin with. It is made once for an engine: registering some hundred functions takes longer than
/// everything else that opens a snapshot, and every change of the catalog waits until its snapshot is open.
#[derive(Debug)]
pub struct BaseState(SessionState);

impl BaseState {
    /// `hot` holds the cuboids in memory, `segments` reads them from files, `damage` takes reports of damaged ones.
    pub fn new(
        runtime: &Arc<RuntimeEnv>,
        hot: Option<&Arc<HotCuboids>>,
        (damage, segments): (&Arc<DamageReports>, FileReads),
        (query, partitions): (&QueryConfig, usize),
        extensions: &[Arc<dyn SessionExtension>],
    ) -> Result<Self> {
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(DATABASE, DEFAULT_SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true)
            .with_batch_size(query.batch_rows)
            .with_target_partitions(partitions)
            .with_extension(Arc::clone(damage))
            .with_extension(Arc::new(segments))
            .with_extension(Arc::new(PlanBudget::from(query)));
        if let Some(hot) = hot {
            config = config.with_extension(Arc::clone(hot));
        }
        let options = config.options_mut();
        options.execution.time_zone = Some("UTC".to_owned());
        options.sql_parser.parse_float_as_decimal = true;
        options.execution.parquet.reorder_filters = true;
        // RepartitionExec of DataFusion 55 waits for ever for a batch that was spilled into another file than the one it reads
        // (https://github.com/apache/datafusion/issues/24883): so each file takes one batch.
        options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;
        // Both options make DataFusion compare NaN as less than some numbers: groups and files with NaN would be lost.
        options.optimizer.enable_topk_aggregation = false;
        options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        // The planner takes `coalesce(x, 0)` and `x IS TRUE` for never null, its operators do not.
        options.execution.skip_physical_aggregate_schema_check = true;
        let single_node_rows = query.single_node_rows;
        options.extensions.insert(NyalaOptions { single_node_rows, ..NyalaOptions::default() });
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(runtime))
            .with_default_features();
        let mut builder = register(builder)
            .with_analyzer_rules(analyzer_rules())
            .with_optimizer_rules(optimizer_rules())
            .with_relation_planners(vec![
                Arc::new(SharedQueries),
                Arc::new(DerivedValues),
                Arc::new(KeysOfTables),
            ])
            .with_type_planner(Arc::new(WrittenTypes::default()))
            .with_query_planner(Arc::new(NyalaPlanner))
            .with_physical_optimizer_rules(vec![PhysicalRules::new().into_rule()]);
        for extension in extensions {
            builder = extension.configure(builder)?;
        }
        let mut context = SessionContext::new_with_state(builder.build());
        context.register_expr_planner(Arc::new(UnknownTypes))?;
        context.register_expr_planner(Arc::new(JsonOperators))?;
        context.register_expr_planner(Arc::new(TimesOfOneUnit))?;
        context.register_expr_planner(Arc::new(DecimalsMeetFloats))?;
        context.register_expr_planner(Arc::new(IntervalsInOrder))?;
        for extension in extensions {
            extension.prepare(&context)?;
        }
        Ok(Self(context.state()))
    }

    pub fn state(&self) -> &SessionState {
        &self.0
    }

    /// A context for one snapshot.
    pub fn begin(&self) -> SessionContext {
        let context = SessionContext::new_with_state(self.0.clone());
        // Copies of a state share their lists of tables.
        context.register_catalog_list(Arc::new(MemoryCatalogProviderList::new()));
        context
    }
}

/// DataFusion's rules, which coerce the types of all sides to one, between PostgreSQL's meanings.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![Arc::new(MeaningsOf(Phase::Types))];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(MeaningsOf(Phase::Constants)));
    rules.into_iter().map(|rule| Arc::new(InterruptibleAnalysis(rule)) as Arc<_>).collect()
}

/// DataFusion's rules, after the meanings that keep them from wrong rewrites.
fn optimizer_rules() -> Vec<LogicalRule> {
    let mut rules: Vec<LogicalRule> = vec![Arc::new(WithoutKeys), Arc::new(MeaningsOf(Phase::Optimizer))];
    let known = Optimizer::new().rules.into_iter();
    let known = known.map(keep_sum_types).map(pin_filters).map(keep_null_equality).map(keep_qualifiers);
    rules.extend(known.map(keep_union_names).flat_map(without_keys_before));
    rules.into_iter().map(|rule| Interruptible.around(rule)).collect()
}

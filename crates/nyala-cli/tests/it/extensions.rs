//! Parts that other crates add to an engine: where queries run, and how sessions plan.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_engine::{
    Answer, CostClass, Extensions, Placed, Placement, PlannedQuery, QueryError, SessionExtension,
};
use nyala_model::CatalogSnapshot;

use crate::harness::TestEngine;

/// Notes the cost class of each query, and runs each as another node would: here, but behind a stream that may never end.
#[derive(Debug, Default)]
struct Elsewhere {
    classes: Mutex<Vec<CostClass>>,
    open: Arc<AtomicUsize>,
}

/// One open stream of [`Elsewhere`].
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Placement for Elsewhere {
    fn place<'a>(&'a self, query: PlannedQuery<'a>) -> BoxFuture<'a, Result<Placed, QueryError>> {
        self.classes.lock().unwrap().push(query.class);
        let plan = Arc::new(ElsewhereExec { input: query.plan, open: Arc::clone(&self.open) });
        futures::future::ready(Ok(Placed::here(plan, &query.state))).boxed()
    }

    fn figures<'a>(&'a self, _: &'a dyn ExecutionPlan, _: bool) -> BoxFuture<'a, Result<String, QueryError>> {
        // Metrics are asked for only if other nodes do parts of a plan.
        unreachable!()
    }
}

/// Gives the rows of its input. If the first column asks for it, the stream then never ends.
#[derive(Debug)]
struct ElsewhereExec {
    input: Arc<dyn ExecutionPlan>,
    open: Arc<AtomicUsize>,
}

impl DisplayAs for ElsewhereExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ElsewhereExec")
    }
}

impl ExecutionPlan for ElsewhereExec {
    fn name(&self) -> &str {
        "ElsewhereExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: children.remove(0), open: Arc::clone(&self.open) }))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open.fetch_add(1, Ordering::SeqCst);
        let (open, schema) = (Open(Arc::clone(&self.open)), self.schema());
        let endless = schema.field(0).name() == "endless";
        let rest = if endless {
            futures::stream::pending().left_stream()
        } else {
            futures::stream::empty().right_stream()
        };
        let rows = self.input.execute(partition, task)?.chain(rest);
        let rows = rows.inspect(move |_| assert!(open.0.load(Ordering::SeqCst) > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_run_where_the_placement_decides_and_end_there() {
    let elsewhere = Arc::new(Elsewhere::default());
    let extensions = Extensions { placement: Some(Arc::clone(&elsewhere) as _), ..Extensions::default() };
    let test = TestEngine::with_extensions(extensions).await;
    assert_eq!(test.run("SELECT count(*) FROM generate_series(1, 10)").await, [["10"]]);
    assert_eq!(elsewhere.classes.lock().unwrap().len(), 1);
    assert_eq!(elsewhere.open.load(Ordering::SeqCst), 0, "it has ended");

    let Answer::Rows(mut rows) =
        test.session.query("SELECT value AS endless FROM generate_series(1, 3) AS s (value)").await.unwrap()
    else {
        panic!("a query gives rows")
    };
    assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 3);
    assert_eq!(elsewhere.open.load(Ordering::SeqCst), 1);
    test.session.cancel();
    assert!(rows.next().await.unwrap().is_err(), "it was cancelled");
    drop(rows);
    while elsewhere.open.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Counts the plans of sessions, in front of the planner that they have.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicUsize>);

#[derive(Debug)]
struct CountingPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    plans: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl QueryPlanner for CountingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plans.fetch_add(1, Ordering::SeqCst);
        self.inner.create_physical_plan(plan, state).await
    }
}

impl SessionExtension for Counting {
    fn configure(&self, mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
        let inner = builder.query_planner().take().expect("the engine has a planner");
        let plans = Arc::clone(&self.0);
        Ok(builder.with_query_planner(Arc::new(CountingPlanner { inner, plans })))
    }

    fn install(&self, _: &SessionContext, _: &Arc<CatalogSnapshot>) -> Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_workers_are_set_up_by_one_registration() {
    let plans = Arc::new(AtomicUsize::new(0));
    let sessions: Vec<Arc<dyn SessionExtension>> = vec![Arc::new(Counting(Arc::clone(&plans)))];
    let test = TestEngine::with_extensions(Extensions::of_sessions(sessions)).await;
    let sql = "SELECT sum(value) AS total FROM generate_series(1, 10) AS s (value)";
    assert_eq!(test.run(sql).await, [["55"]]);
    assert_eq!(plans.load(Ordering::SeqCst), 1);

    // Plans with the state of the engine and without a session, as a worker would.
    let context = SessionContext::new_with_state(test.engine.session_state().build());
    let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(crate::harness::rows_of(&rows), [["55"]]);
    assert!(plans.load(Ordering::SeqCst) > 1, "the same planner");
    let bits = context.sql("SELECT bitmap_distinct(value) FROM generate_series(1, 10) AS s (value)").await;
    assert!(bits.is_ok(), "{:?}", bits.map(drop));
}

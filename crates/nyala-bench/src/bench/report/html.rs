//! The report as one page that needs nothing else.

use super::chart::{Chart, Scale, escape};
use super::course::courses;
use super::document::{QueryReport, Report, RunReport};
use super::table::{cells, ms};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1320px;padding:0 1rem;\
color:#1b1f24;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:.25rem .6rem;text-align:right;\
border-bottom:1px solid #d8dee4}th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.5rem}figure{margin:0}\
figcaption{font-weight:600}svg text{font-size:12px;fill:#57606a}.grid{stroke:#d8dee4}\
.legend span{margin-right:1rem}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}\
.error{color:#b3261e}";

/// The page.
pub fn page(report: &Report) -> String {
    let title = format!("{} on {}", report.setup.workload, report.setup.server);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\n\
         <body><h1>{}</h1>\n{}{}{}{}{}{}</body></html>\n",
        escape(&title),
        escape(&title),
        setup(report),
        runs(report),
        charts(report),
        courses(report),
        errors(report),
        queries(report)
    )
}

fn setup(report: &Report) -> String {
    let (setup, machine) = (&report.setup, &report.machine);
    let pace = match setup.arrivals_per_second {
        Some(rate) => format!(
            "{rate} queries a second are due, whatever the server does; times count from when they are due"
        ),
        None => "closed loop: each client asks again when it has its answer".to_owned(),
    };
    let memory =
        machine.memory_bytes.map(|bytes| format!(", {:.0} GB", bytes as f64 / 1e9)).unwrap_or_default();
    let lines = [
        format!("{} by nyala bench {}", report.date, report.tool_version),
        format!("server: {} {}", setup.server, setup.server_version.as_deref().unwrap_or_default()),
        format!(
            "{pace}; mode {}, {} times {} s after {} s of warm-up, seed {}",
            format!("{:?}", setup.mode).to_lowercase(),
            setup.rounds,
            setup.duration_seconds,
            setup.warmup_seconds,
            setup.seed
        ),
        format!(
            "measured from: {}, {} threads{memory}, kernel {}",
            machine.processor.as_deref().unwrap_or("unknown processor"),
            machine.threads,
            machine.kernel.as_deref().unwrap_or("unknown")
        ),
    ];
    format!("<p>{}</p>\n", lines.map(|line| escape(line.trim())).join("<br>"))
}

fn runs(report: &Report) -> String {
    let (header, rows) = cells(report);
    let note = "Times in milliseconds. CPU times are for each query. <code>SELECT 1</code> ran on the same door, \
                in the same mode, from as many clients: it is the ceiling of the path.";
    format!("{}<p>{note}</p>\n", html_table(&header, &rows))
}

fn html_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = header.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let cells =
        |row: &Vec<String>| row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect::<String>();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    format!("<div class=\"wide\"><table><tr>{head}</tr>\n{body}</table></div>\n")
}

fn charts(report: &Report) -> String {
    let clients: Vec<String> = report.runs.iter().map(|run| run.clients.to_string()).collect();
    let over_clients =
        |title, scale, lines| Chart { title, axis: "clients", places: clients.clone(), lines, scale };
    let line = |name: &str, value: fn(&RunReport) -> Option<f64>| {
        (name.to_owned(), report.runs.iter().map(value).collect::<Vec<_>>())
    };
    let latencies = vec![
        line("mean", |run| Some(run.total.mean_ms)),
        line("p50", |run| Some(run.total.p50_ms)),
        line("p95", |run| Some(run.total.p95_ms)),
        line("p99", |run| Some(run.total.p99_ms)),
        line("p99.9", |run| Some(run.total.p999_ms)),
        line("max", |run| Some(run.total.max_ms)),
    ];
    let cores =
        vec![line("client", |run| run.cost.client_cores), line("server", |run| run.cost.server_cores)];
    let drawn = [
        over_clients("Queries per second", Scale::Linear, vec![line("queries", |run| Some(run.per_second))]),
        over_clients(
            "Queries per second, and the ceiling of the path",
            Scale::Logarithmic,
            vec![
                line("queries", |run| Some(run.per_second)),
                line("SELECT 1", |run| run.ceiling.map(|ceiling| ceiling.per_second)),
            ],
        ),
        over_clients("Latency in milliseconds", Scale::Logarithmic, latencies),
        curves(report),
        over_clients("Busy cores", Scale::Linear, cores),
    ];
    format!("<div class=\"charts\">{}</div>\n", drawn.map(|chart| chart.svg()).concat())
}

/// The whole distribution, a line for each number of clients.
fn curves(report: &Report) -> Chart<'_> {
    let shares = report.runs.first().map(|run| run.curve.as_slice()).unwrap_or_default();
    let line = |run: &RunReport| {
        (format!("{} clients", run.clients), run.curve.iter().map(|(_, ms)| Some(*ms)).collect())
    };
    Chart {
        title: "Milliseconds within which a share of the queries was answered",
        axis: "% of the queries",
        places: shares.iter().map(|(share, _)| format!("{}", (share * 1e6).round() / 1e4)).collect(),
        lines: report.runs.iter().map(line).collect(),
        scale: Scale::Logarithmic,
    }
}

fn errors(report: &Report) -> String {
    let mut out = String::new();
    for run in report.runs.iter().filter(|run| !run.error_messages.is_empty()) {
        out += &format!("<h2 class=\"error\">Errors with {} clients</h2><ul>", run.clients);
        for (message, count) in &run.error_messages {
            out += &format!("<li>{count} times: {}</li>", escape(message));
        }
        out += "</ul>\n";
    }
    for beside in report.runs.iter().filter_map(|run| run.beside.as_ref()).filter(|beside| beside.errors > 0)
    {
        out += &format!("<h2 class=\"error\">Errors of {}</h2><ul>", escape(&beside.workload));
        for (message, count) in &beside.error_messages {
            out += &format!("<li>{count} times: {}</li>", escape(message));
        }
        out += "</ul>\n";
    }
    out
}

fn queries(report: &Report) -> String {
    let header = ["query", "handled", "errors", "rows", "mean ms", "p50", "p95", "p99", "p99.9", "max"];
    let row = |query: &QueryReport| {
        let numbers = &query.numbers;
        let times = [
            numbers.mean_ms,
            numbers.p50_ms,
            numbers.p95_ms,
            numbers.p99_ms,
            numbers.p999_ms,
            numbers.max_ms,
        ];
        let counts = [
            numbers.handled.to_string(),
            numbers.errors.to_string(),
            format!("{:.1}", numbers.rows_per_query),
        ];
        [vec![query.name.clone()], counts.to_vec(), times.map(ms).to_vec()].concat()
    };
    let section = |run: &RunReport| {
        let rows: Vec<_> = run.queries.iter().map(row).collect();
        format!("<h2>Queries with {} clients</h2>{}", run.clients, html_table(&header, &rows))
    };
    report.runs.iter().map(section).collect()
}

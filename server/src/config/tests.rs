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
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(loaded.config.server.port, 80);
    assert_eq!(loaded.config.kubernetes.namespace.as_deref(), Some("opensandbox"));
    assert_eq!(loaded.config.kubernetes.kubeconfig_path, None);
    assert_eq!(loaded.config.egress.mode, EgressMode::DnsNft);
}

#[test]
fn the_second_file_of_a_real_deployment_names_its_runtime_class() {
    let more = "\n[storage]\nallowed_host_paths = []\n[secure_runtime]\ntype = \"kata\"\nk8s_runtime_class = \"kata-clh-runtime-rs\"\n";
    let loaded = parse(&format!("{REAL}{more}"), &keyed()).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
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
    let warnings = parse(&text, &keyed()).unwrap().warnings;
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

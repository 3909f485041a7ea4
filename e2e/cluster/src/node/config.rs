//! The node's configuration files, rendered.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::places::{NETWORK, NODE, Places, containerd_run, containerd_socket};
use crate::control_plane::{NODE_ADDRESS, POD_RANGE};

/// Runtime handler of the RuntimeClass that the seeds' second Pool asks for.
pub const VM_HANDLER: &str = "kata-clh-runtime-rs";

/// One file: its name under `config/` and its text.
pub struct File {
    /// Its path below the configuration directory.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// All of them.
///
/// # Errors
/// When one cannot be written as YAML.
pub fn files(places: &Places, plugins: &Path, pause: &str) -> Result<Vec<File>> {
    let file = |name, text| File { name, text };
    Ok(vec![
        file("containerd.toml", containerd(places, plugins, pause)),
        file("certs.d/_default/hosts.toml", hosts(places)),
        file("cni/10-opensandbox.conflist", pretty(&cni(places))),
        file("kubelet.yaml", yaml(&kubelet(places))?),
        file("kube-proxy.yaml", yaml(&kube_proxy(places))?),
        file("Corefile", corefile(places)),
        file("registry.yml", yaml(&registry(places))?),
    ])
}

fn yaml(value: &Value) -> Result<String> {
    serde_saphyr::to_string(value).context("render a configuration file")
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// containerd 1.6, configuration version 2.
fn containerd(places: &Places, plugins: &Path, pause: &str) -> String {
    let root = places.dir.join("containerd");
    format!(
        r#"version = 2
root = "{root}"
state = "{run}"

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE every Pod fails otherwise: "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  # Network namespaces lie under our own directory, so that an end of the node finds all of them.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{certs}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{VM_HANDLER}]
      runtime_type = "io.containerd.runc.v2"
"#,
        root = root.display(),
        run = containerd_run().display(),
        socket = containerd_socket().display(),
        plugins = plugins.display(),
        cni = places.config("cni").display(),
        certs = places.config("certs.d").display(),
    )
}

/// Every registry's name leads to ours. `server` too: else an image that is missing here would be
/// asked for outside, with a long wait for names that do not resolve.
fn hosts(places: &Places) -> String {
    let registry = places.registry();
    format!(
        "server = \"http://{registry}\"\n\n[host.\"http://{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    )
}

/// `ptp` and not `bridge`: each packet between Pods passes the host's routing, so Services work
/// between Pods of one node without the `br_netfilter` module.
fn cni(places: &Places) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": NETWORK,
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": places.dir.join("cni"),
                    "ranges": [[{ "subnet": POD_RANGE, "rangeStart": "198.18.1.1", "gateway": NODE_ADDRESS }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

fn kubelet(places: &Places) -> Value {
    let pki = places.dir.join("pki");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "healthzPort": 0,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": pki.join("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": pki.join("kubelet.crt"),
        "tlsPrivateKeyFile": pki.join("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", containerd_socket().display()),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        "resolvConf": "",
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "podLogsDir": places.pod_logs(),
        "volumePluginDir": places.kubelet().join("volume-plugins"),
        "makeIPTablesUtilChains": false,
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "maxPods": 250,
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
            "imagefs.available": "1%", "imagefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

fn kube_proxy(places: &Places) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": { "kubeconfig": places.dir.join("proxy.kubeconfig") },
        "hostnameOverride": NODE,
        "clusterCIDR": POD_RANGE,
        "detectLocalMode": "ClusterCIDR",
        "healthzBindAddress": format!("{NODE_ADDRESS}:10256"),
        "metricsBindAddress": format!("{NODE_ADDRESS}:10249"),
        "nodePortAddresses": [format!("{NODE_ADDRESS}/32")],
        // The machine's own limits stay as they are.
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
    })
}

/// Names of the cluster only. A name from outside is said not to exist: asking outside would make
/// every look-up of a machine without a network hang.
///
/// Two blocks, as CoreDNS asks `template` before `kubernetes` in one.
fn corefile(places: &Places) -> String {
    format!(
        r"cluster.local in-addr.arpa ip6.arpa {{
    bind {NODE_ADDRESS}
    errors
    ready {NODE_ADDRESS}:8181
    kubernetes {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
}}
. {{
    bind {NODE_ADDRESS}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
",
        kubeconfig = places.dir.join("dns.kubeconfig").display()
    )
}

fn registry(places: &Places) -> Value {
    json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": places.registry_data },
            "delete": { "enabled": true },
        },
        "http": { "addr": places.registry() },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        let places = Places { dir: "/s/node".into(), registry_data: "/s/registry".into(), registry_port: 5001 };
        let files = files(&places, Path::new("/usr/lib/cni"), "local/pause:1").unwrap();
        files.into_iter().find(|file| file.name == name).unwrap().text
    }

    #[test]
    fn any_registry_name_leads_to_ours_and_nowhere_else() {
        let hosts = text("certs.d/_default/hosts.toml");
        assert!(hosts.starts_with("server = \"http://127.0.0.1:5001\""));
        assert_eq!(hosts.matches("http://").count(), 2);
        assert!(text("registry.yml").contains("127.0.0.1:5001"));
    }

    #[test]
    fn the_seeds_runtime_class_has_a_handler() {
        assert!(text("containerd.toml").contains("runtimes.kata-clh-runtime-rs]"));
    }

    #[test]
    fn the_kubelet_lets_nobody_in_unasked() {
        let kubelet: Value = serde_saphyr::from_str(&text("kubelet.yaml")).unwrap();
        assert_eq!(kubelet["authentication"]["anonymous"]["enabled"], false);
        assert_eq!(kubelet["authorization"]["mode"], "Webhook");
    }
}

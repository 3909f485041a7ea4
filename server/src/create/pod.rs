//! The Pod spec of a sandbox that is made from an image.

use serde_json::{Map, Value, json};

use super::{Given, checks, egress, env_list, quantity, resources, volumes};
use crate::config::Config;
use crate::error::{ApiError, Code};
use crate::wire::create::{CreateRequest, Image, Platform};
use crate::wire::volume::Pvc;
use crate::words;

const BIN: &str = "opensandbox-bin";
const BIN_PATH: &str = "/opt/opensandbox";

/// Puts execd, its bootstrap script and what they can use into the shared directory.
const INSTALL: &str = "set -e
cp ./execd /opt/opensandbox/execd
cp ./bootstrap.sh /opt/opensandbox/bootstrap.sh
chmod 0755 /opt/opensandbox/execd /opt/opensandbox/bootstrap.sh
cp /usr/local/bin/bwrap /opt/opensandbox/bwrap 2>/dev/null && chmod 0755 /opt/opensandbox/bwrap || true
for tool in opensandbox-session-gate opensandbox-launcher; do
  if [ -f \"/usr/local/libexec/$tool\" ]; then
    cp \"/usr/local/libexec/$tool\" \"/opt/opensandbox/$tool\"
    chmod 0555 \"/opt/opensandbox/$tool\"
  fi
done
";
const DISABLE_IPV6: &str =
    "if [ -f /proc/sys/net/ipv6/conf/all/disable_ipv6 ]; then echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; fi
";

/// What a Pod spec is made from.
pub(super) struct Parts<'a> {
    pub config: &'a Config,
    pub request: &'a CreateRequest,
    pub given: &'a Given,
    pub entrypoint: &'a [String],
    pub platform: Option<&'a Platform>,
}

/// The Pod spec, and the claims that it mounts.
pub(super) fn spec(parts: &Parts<'_>, image: &Image) -> Result<(Value, Vec<Pvc>), ApiError> {
    let Parts { config, request, given, .. } = parts;
    let laid_out = volumes::plan(&config.storage, &request.volumes)?;
    let isolated = checks::isolated(request);
    let sidecar = match (&request.network_policy, &config.egress.image) {
        (Some(policy), Some(image)) => Some(egress::sidecar(&config.egress, image, policy, request, given)),
        (Some(_), None) | (None, _) => None,
    };

    let mut pod_volumes = vec![json!({"name": BIN, "emptyDir": {}})];
    if isolated {
        pod_volumes.push(json!({"name": "isolation-upper", "emptyDir": {}}));
    }
    pod_volumes.extend(laid_out.volumes);
    if sidecar.is_some() {
        pod_volumes.extend(egress::ca_volume(&config.egress));
    }
    let main = main_container(parts, image, laid_out.mounts, isolated)?;
    let init = installer(config, sidecar.is_some());
    let containers: Vec<Value> = std::iter::once(main).chain(sidecar).collect();

    let mut spec = json!({
        "automountServiceAccountToken": false,
        "initContainers": [init],
        "containers": containers,
        "volumes": pod_volumes,
    });
    if let Some(runtime) = &config.secure_runtime {
        spec["runtimeClassName"] = json!(runtime.runtime_class);
    }
    if let Some(platform) = parts.platform {
        spec["nodeSelector"] = json!({words::NODE_OS: platform.os, words::NODE_ARCH: platform.arch});
    }
    if image.auth.is_some() {
        spec["imagePullSecrets"] = json!([{"name": pull_secret_name(&given.id)}]);
    }
    Ok((spec, laid_out.claims))
}

/// Name of the Secret that holds a sandbox's registry credentials (contract).
pub(super) fn pull_secret_name(id: &str) -> String {
    format!("opensandbox-image-auth-{id}")
}

fn installer(config: &Config, egress: bool) -> Value {
    let ipv6_off = egress && config.egress.disable_ipv6;
    let script = if ipv6_off { format!("{DISABLE_IPV6}{INSTALL}") } else { INSTALL.to_owned() };
    let mut container = json!({
        "name": "execd-installer",
        "image": config.runtime.execd_image,
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "volumeMounts": [{"name": BIN, "mountPath": BIN_PATH}],
    });
    if ipv6_off {
        // The switch is per network namespace and needs it; nothing else of the Pod gets this.
        container["securityContext"] = json!({"privileged": true});
    }
    let kubernetes = &config.kubernetes;
    if let Some(resources) = resources(kubernetes.execd_init_limits.as_ref(), kubernetes.execd_init_requests.as_ref()) {
        container["resources"] = resources;
    }
    container
}

fn main_container(
    parts: &Parts<'_>,
    image: &Image,
    more_mounts: Vec<Value>,
    isolated: bool,
) -> Result<Value, ApiError> {
    let Parts { config, request, given, entrypoint, .. } = parts;
    let mut command = vec![format!("{BIN_PATH}/bootstrap.sh")];
    command.extend(entrypoint.iter().cloned());
    let mut mounts = vec![json!({"name": BIN, "mountPath": BIN_PATH})];
    if isolated {
        mounts.push(json!({"name": "isolation-upper", "mountPath": "/var/lib/execd/isolation"}));
    }
    mounts.extend(more_mounts);

    let lifecycle = request.lifecycle.as_ref().map(ToString::to_string);
    let mut env = egress::env_of_main(request);
    if let Some(lifecycle) = &lifecycle {
        env.push(("OPENSANDBOX_LIFECYCLE", Some(lifecycle)));
    }
    env.push(("OPENSANDBOX_ID", Some(&given.id)));
    if config.runtime.execd_run_as_init {
        env.push(("EXECD_INIT", Some("1")));
    }
    if request.credential_proxy {
        env.push(("OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", Some("true")));
    }
    env.push(("EXECD", Some("/opt/opensandbox/execd")));

    let mut container = json!({
        "name": "sandbox",
        "image": image.uri,
        "imagePullPolicy": config.kubernetes.image_pull_policy,
        "command": command,
        "env": env_list(env),
        "volumeMounts": mounts,
    });
    let limits = quantity::read("resourceLimits", &request.limits)?;
    let requests = request.requests.as_ref().map(|r| quantity::read("resourceRequests", r)).transpose()?;
    // Without limits the contract writes no block at all, requests or not.
    if !limits.is_empty()
        && let Some(block) = resources(Some(&limits), Some(requests.as_ref().unwrap_or(&limits)))
    {
        container["resources"] = block;
    }
    if let Some(context) = security_context(isolated, request.network_policy.is_some()) {
        container["securityContext"] = context;
    }
    Ok(container)
}

fn security_context(isolated: bool, egress: bool) -> Option<Value> {
    let mut capabilities = Map::new();
    let mut context = Map::new();
    if isolated {
        capabilities.insert("add".to_owned(), json!(["SYS_ADMIN"]));
        context.insert("seccompProfile".to_owned(), json!({"type": "Unconfined"}));
        context.insert("appArmorProfile".to_owned(), json!({"type": "Unconfined"}));
    }
    if egress {
        // Or the sandbox could undo what the sidecar sets up.
        capabilities.insert("drop".to_owned(), json!(["NET_ADMIN"]));
    }
    if !capabilities.is_empty() {
        context.insert("capabilities".to_owned(), Value::Object(capabilities));
    }
    (!context.is_empty()).then_some(Value::Object(context))
}

/// What only shows once the template file is merged in.
pub(super) fn check_merged(manifest: &Value, platform: Option<&Platform>, policy: bool) -> Result<(), ApiError> {
    let Some(pod) = manifest.pointer("/spec/template/spec") else { return Ok(()) };
    let bad = |message: String| Err(ApiError::bad(Code::InvalidParameter, message));
    if policy && pod.get("runtimeClassName").and_then(Value::as_str) == Some("gvisor") {
        return bad("networkPolicy cannot be enforced under gVisor, which this server's template asks for".to_owned());
    }
    let Some(platform) = platform else { return Ok(()) };
    for (key, wanted) in [(words::NODE_OS, &platform.os), (words::NODE_ARCH, &platform.arch)] {
        if affinity_forbids(pod, key, wanted) {
            return bad(format!("platform: this server's template only allows nodes whose {key} is not {wanted}"));
        }
    }
    Ok(())
}

/// Whether every required node affinity term rules out `wanted` as the value of `key`.
fn affinity_forbids(pod: &Value, key: &str, wanted: &str) -> bool {
    let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = pod.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let forbids = |expression: &Value| {
        let values = expression.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let listed = values.iter().any(|v| v.as_str() == Some(wanted));
        let about = expression.get("key").and_then(Value::as_str) == Some(key);
        match expression.get("operator").and_then(Value::as_str) {
            Some("In") => about && !listed,
            Some("NotIn") => about && listed,
            Some(_) | None => false,
        }
    };
    let ruled_out = |term: &Value| {
        let expressions = term.get("matchExpressions").and_then(Value::as_array);
        expressions.is_some_and(|all| all.iter().any(forbids))
    };
    !terms.is_empty() && terms.iter().all(ruled_out)
}

/// Whether the template file itself contradicts a platform; the merge would hide it.
pub(super) fn template_contradicts(template: &Value, platform: &Platform) -> Option<&'static str> {
    let selector = template.pointer("/spec/template/spec/nodeSelector")?;
    let pairs = [(words::NODE_OS, &platform.os), (words::NODE_ARCH, &platform.arch)];
    let clash =
        |(key, wanted): &(&str, &String)| selector.get(*key).and_then(Value::as_str).is_some_and(|v| v != *wanted);
    pairs.into_iter().find(clash).map(|(key, _)| key)
}

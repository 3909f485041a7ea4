//! What the flags of the reference's Deployment, and of people, are read as.

use super::*;

fn read(args: &[&str]) -> Result<Flags, clap::Error> {
    Flags::from_args(std::iter::once("opensandbox-controller").chain(args.iter().copied()))
}

#[test]
fn booleans_are_read_as_go_reads_them() {
    for (args, expected) in [
        (vec!["--leader-elect"], true),
        (vec!["-leader-elect"], true),
        (vec!["--leader-elect=false"], false),
        (vec!["-leader-elect=0"], false),
        (vec!["--leader-elect=T"], true),
    ] {
        assert_eq!(read(&args).unwrap().leader_elect, expected, "{args:?}");
    }
    assert!(!read(&["-metrics-secure=false"]).unwrap().metrics_secure);
    assert!(read(&["--leader-elect=maybe"]).unwrap_err().to_string().contains("not a boolean"));
}

#[test]
fn a_value_may_follow_after_a_space_or_an_equals_sign() {
    assert_eq!(read(&["-snapshot-registry", "r:5000"]).unwrap().snapshot_registry, "r:5000");
    assert_eq!(read(&["--snapshot-registry=r:5000"]).unwrap().snapshot_registry, "r:5000");
}

#[test]
fn an_unknown_flag_is_named() {
    assert!(read(&["-no-such-flag"]).unwrap_err().to_string().contains("--no-such-flag"));
}

#[test]
fn the_arguments_of_the_reference_deployment_are_accepted() {
    let flags = read(&[
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--metrics-bind-address=:8443",
        "--concurrency=batchsandbox=8;pool=4;other=1",
        "--kube-client-qps=100",
        "--kube-client-burst=200",
        "--commit-job-timeout=1h2m0.5s",
        "--zap-encoder=console",
        "--zap-log-level=info",
    ])
    .unwrap();
    assert_eq!(flags.concurrency.of("pool", 1), 4);
    assert_eq!(flags.concurrency.of("sandbox", 7), 7);
    assert_eq!(flags.commit_job_timeout, Duration::from_millis(3_720_500));
    assert_eq!(flags.log_format(), LogFormat::Text);
    assert_eq!(flags.health_probe_bind_address.0.unwrap().port(), 8081);
    // It wants TLS, with a certificate of our own.
    assert!(flags.metrics_secure && flags.metrics_files().is_none());
    let told = flags.without_effect();
    assert!(told.len() == 1 && told[0].starts_with("--commit-job-timeout: "), "{told:?}");
}

#[test]
fn rates_are_unlimited_and_metrics_off_by_default() {
    let flags = read(&[]).unwrap();
    assert!(flags.kube_client_qps.abs() < f64::EPSILON);
    assert_eq!(flags.metrics_bind_address, Listen(None));
    assert_eq!(flags.compat_annotations, CompatAnnotations::Off);
}

#[test]
fn zero_workers_are_refused() {
    assert!(read(&["--concurrency=pool=0"]).unwrap_err().to_string().contains("positive"));
}

#[test]
fn the_certificate_of_the_metrics_is_in_its_directory_under_the_names_given() {
    let files = read(&["--metrics-cert-path=/certs", "--metrics-cert-key=own.key"]).unwrap().metrics_files().unwrap();
    assert_eq!(files.certificate, Path::new("/certs/tls.crt"));
    assert_eq!(files.key, Path::new("/certs/own.key"));
}

#[test]
fn of_a_flag_given_twice_the_last_one_counts() {
    let flags = read(&["--metrics-secure=false", "--log-max-size=1", "-metrics-secure", "--log-max-size=2"]).unwrap();
    assert!(flags.metrics_secure && flags.log_max_size == 2);
}

#[test]
fn flags_without_effect_are_named_and_defaults_are_not() {
    assert_eq!(read(&[]).unwrap().without_effect(), [""; 0]);
    let args = [
        "--webhook-cert-path=/w",
        "--enable-http2",
        "--allow-weak-tls-keylengths",
        "--snapshot-registry=r:5000",
        "--snapshot-registry-insecure",
        "--snapshot-push-secret=push",
        "--resume-pull-secret=pull",
        "--image-committer-image=i:1",
        "--containerd-socket-path=/run/c.sock",
        "--commit-job-timeout=1m",
    ];
    let told = read(&args).unwrap().without_effect();
    for arg in args {
        let name = arg.split('=').next().unwrap();
        assert!(told.iter().any(|told| told.starts_with(&format!("{name}: "))), "{name} is not in {told:?}");
    }
}

#[test]
fn a_log_file_is_kept_only_where_it_is_asked_for() {
    assert_eq!(read(&["--log-max-size=5"]).unwrap().log_limits(), None);
    let limits =
        read(&["--enable-file-log", "--log-max-size=5", "--log-compress=false"]).unwrap().log_limits().unwrap();
    assert_eq!(limits, Limits::new(5, 10, 30, false));
    assert_eq!(limits.size, 5 * 1024 * 1024);
}

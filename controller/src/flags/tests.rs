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
    // It wants TLS, which is not there: it starts without metrics and is told.
    assert_eq!(flags.plain_metrics(), None);
    assert!(flags.without_effect().iter().any(|flag| flag.contains("--metrics-bind-address")));
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

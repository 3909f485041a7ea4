//! What the machine has and uses, from `/proc`.

use axum::Json;
use jiff::Timestamp;
use serde_json::{Value, json};

/// `GET /metrics`. Processor use is the mean since the start of the machine.
pub async fn read() -> Json<Value> {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (total, free) = (mebibytes(&memory, "MemTotal:"), mebibytes(&memory, "MemAvailable:"));
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Json(json!({
        "cpu_count": cpus,
        "cpu_used_pct": busy(&std::fs::read_to_string("/proc/stat").unwrap_or_default()),
        "mem_total_mib": total,
        "mem_used_mib": (total - free).max(0.0),
        "timestamp": Timestamp::now().as_millisecond(),
    }))
}

fn mebibytes(text: &str, key: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<f64>().ok());
    value.unwrap_or(0.0) / 1024.0
}

fn busy(stat: &str) -> f64 {
    let first = stat.lines().next().unwrap_or_default();
    let times: Vec<f64> = first.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let total: f64 = times.iter().sum();
    let idle: f64 = times.iter().skip(3).take(2).sum();
    if total > 0.0 { 100.0 * (total - idle) / total } else { 0.0 }
}

//! One measured line of the table.

use serde::Serialize;

/// What a figure counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Milliseconds,
    Seconds,
    Mebibytes,
    /// How often something was done or asked: the same on every machine.
    Count,
    /// A quotient of two times.
    Times,
}

impl Unit {
    /// Behind a number.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Milliseconds => " ms",
            Self::Seconds => " s",
            Self::Mebibytes => " MiB",
            Self::Count => "",
            Self::Times => " x",
        }
    }
}

/// A measured line: what, how much, and how much is allowed.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// As the table says it; the same in every run.
    pub what: String,
    pub unit: Unit,
    pub value: f64,
    /// The most it should be.
    pub limit: Option<f64>,
    /// What the two-write probe took in the same run.
    pub probe: Option<f64>,
    /// The most that value and probe should differ by, as a quotient.
    pub ratio_limit: Option<f64>,
    /// What the value was made of, in its unit.
    pub samples: Vec<f64>,
    /// What the probe's was made of.
    pub probe_samples: Vec<f64>,
    /// What it consists of, for the reader.
    pub notes: Vec<String>,
}

impl Figure {
    /// A value without limit or probe.
    pub fn new(what: &str, unit: Unit, value: f64) -> Self {
        Self {
            what: what.to_owned(),
            unit,
            value,
            limit: None,
            probe: None,
            ratio_limit: None,
            samples: Vec::new(),
            probe_samples: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// At most so much.
    pub fn limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Beside the probe's.
    pub fn probe(mut self, probe: f64) -> Self {
        self.probe = Some(probe);
        self
    }

    /// At most so many times the probe's.
    pub fn ratio_limit(mut self, limit: f64) -> Self {
        self.ratio_limit = Some(limit);
        self
    }

    /// With what both were made of.
    pub fn samples(mut self, ours: &[f64], probe: &[f64]) -> Self {
        self.samples = ours.to_vec();
        self.probe_samples = probe.to_vec();
        self
    }

    /// With a line of explanation.
    pub fn note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    /// Value by probe.
    pub fn ratio(&self) -> Option<f64> {
        self.probe.filter(|probe| *probe > 0.0).map(|probe| self.value / probe)
    }

    /// Whether it is within the limits that it has.
    pub fn is_within_limits(&self) -> bool {
        let below = |value: Option<f64>, limit: Option<f64>| match (value, limit) {
            (Some(value), Some(limit)) => value <= limit,
            (_, None) | (None, Some(_)) => true,
        };
        below(Some(self.value), self.limit) && below(self.ratio(), self.ratio_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_limit_or_its_ratio_is_not_within_limits() {
        let figure = |value| Figure::new("x", Unit::Milliseconds, value).limit(12.0).probe(5.0).ratio_limit(2.0);
        assert!(figure(10.0).is_within_limits());
        assert!(!figure(10.1).is_within_limits());
        assert!(!Figure::new("x", Unit::Count, 7.0).limit(6.5).is_within_limits());
    }
}

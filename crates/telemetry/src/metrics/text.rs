//! Prometheus's text exposition format 0.0.4. A library would bring a registry with its own counters; ours already exist, and
//! only their text is missing.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use super::histogram::HistogramSnapshot;
use super::list::{MetricFamily, MetricKind};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text under construction. Families are sorted by name, whatever order they were written in.
#[derive(Debug, Default)]
pub struct Exposition {
    samples: BTreeMap<&'static str, (MetricFamily, String)>,
}

impl Exposition {
    /// Starts a family, which then appears in the text even if nothing was counted yet.
    pub fn family(&mut self, family: MetricFamily) -> &mut String {
        &mut self.samples.entry(family.name).or_insert_with(|| (family, String::new())).1
    }

    pub fn sample(&mut self, family: MetricFamily, labels: &[(&str, &str)], value: impl Display) {
        let samples = self.family(family);
        write_sample(samples, family.name, "", labels, value);
    }

    /// Writes the sample of a family without labels.
    pub fn value(&mut self, family: MetricFamily, value: impl Display) {
        self.sample(family, &[], value);
    }

    pub fn value_if_any(&mut self, family: MetricFamily, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(family, value);
        }
    }

    pub fn seconds(&mut self, family: MetricFamily, labels: &[(&str, &str)], span: Duration) {
        self.sample(family, labels, span.as_secs_f64());
    }

    pub fn histogram(&mut self, family: MetricFamily, label: (&str, &str), counted: &HistogramSnapshot) {
        let samples = self.family(family);
        for (bound, count) in counted.cumulative() {
            write_sample(samples, family.name, "_bucket", &[label, ("le", &bound)], count);
        }
        write_sample(samples, family.name, "_sum", &[label], counted.sum().as_secs_f64());
        write_sample(samples, family.name, "_count", &[label], counted.count());
    }

    pub fn finish(self) -> String {
        let mut text = String::new();
        for (family, samples) in self.samples.into_values() {
            let kind = match family.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            text.extend(["# HELP ", family.name, " ", family.help, "\n"]);
            text.extend(["# TYPE ", family.name, " ", kind, "\n", &samples]);
        }
        text
    }
}

fn write_sample(text: &mut String, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
    text.extend([name, suffix]);
    for (index, (label, content)) in labels.iter().enumerate() {
        let escaped = content.replace('\\', r"\\").replace('\n', r"\n").replace('"', r#"\""#);
        text.extend([if index == 0 { "{" } else { "," }, label, "=\"", &escaped, "\""]);
    }
    if !labels.is_empty() {
        text.push('}');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, " {value}");
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::super::list;
    use super::*;

    #[test]
    fn families_are_sorted_and_text_is_escaped() {
        let mut exposition = Exposition::default();
        exposition.value(list::SESSIONS, 3);
        exposition.sample(list::BUILD_INFO, &[("version", "a\"b\\c\nd"), ("more", "é")], 1);
        exposition.value_if_any(list::DISK_FREE, None::<u64>);
        exposition.family(list::HTTP_REQUESTS);
        exposition.seconds(list::BOT_REPORT_AGE, &[], Duration::from_millis(1_500));
        let text = exposition.finish();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE companion_bot_report_age_seconds gauge",
                "companion_bot_report_age_seconds 1.5",
                "# TYPE companion_build_info gauge",
                "companion_build_info{version=\"a\\\"b\\\\c\\nd\",more=\"é\"} 1",
                "# TYPE companion_http_requests_total counter",
                "# TYPE companion_sessions gauge",
                "companion_sessions 3",
            ]
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("# HELP ")).count(), 4);
    }

    #[test]
    fn a_histogram_has_its_buckets_sum_and_count() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_millis(3));
        let mut exposition = Exposition::default();
        let counted = HistogramSnapshot::of([&histogram]);
        exposition.histogram(list::HTTP_DURATION, ("route", "/"), &counted);
        let text = exposition.finish();
        for line in [
            "companion_http_request_duration_seconds_bucket{route=\"/\",le=\"0.0025\"} 0",
            "companion_http_request_duration_seconds_bucket{route=\"/\",le=\"0.005\"} 1",
            "companion_http_request_duration_seconds_bucket{route=\"/\",le=\"+Inf\"} 1",
            "companion_http_request_duration_seconds_sum{route=\"/\"} 0.003",
            "companion_http_request_duration_seconds_count{route=\"/\"} 1",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}

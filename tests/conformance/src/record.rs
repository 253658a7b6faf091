//! A file that gets a line of JSON for each variant as soon as it has run, so that a run cut off has still said something.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use kiln_kernels::Variant;
use serde_json::json;

use crate::Summary;

/// Appends to the file that `KILN_RECORD` names; without it, nothing is written.
pub(crate) struct Record(Option<Mutex<File>>);

impl Record {
    #[expect(clippy::panic, reason = "a record that was asked for and cannot be written is no record")]
    pub(crate) fn of_environment() -> Self {
        Record(std::env::var_os("KILN_RECORD").map(|path| {
            let file = File::options().create(true).append(true).open(&path);
            Mutex::new(file.unwrap_or_else(|e| panic!("KILN_RECORD, {}: {e}", path.display())))
        }))
    }

    /// One variant on one device.
    pub(crate) fn write(&self, device: &str, variant: &Variant, summary: &Summary, took: Duration) {
        let Some(file) = self.0.as_ref().and_then(|file| file.lock().ok()) else { return };
        let line = line(device, variant, summary, took);
        // The disk is full: the summary at the end still says it all.
        let _ = writeln!(&*file, "{line}");
    }
}

fn line(device: &str, variant: &Variant, summary: &Summary, took: Duration) -> serde_json::Value {
    let refused: Vec<_> = summary.refused.iter().map(ToString::to_string).collect();
    json!({
        "device": device,
        "role": variant.role,
        "variant": variant.name,
        "format": variant.format,
        "arm": variant.arm,
        "cases": summary.cases,
        "values": summary.outputs,
        "worst": summary.worst,
        "seconds": took.as_secs_f64(),
        "refused": refused,
        "failures": summary.failures,
    })
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::Summary;
    use kiln_kernels::Registry;
    use std::time::Duration;

    #[test]
    fn a_line_says_what_failed() {
        let registry = Registry::builtin();
        let variant = registry.variants().next().unwrap();
        let summary = Summary { cases: 3, failures: vec!["n = 1: \"off\"".to_owned()], ..Summary::default() };
        let text = line("a device", variant, &summary, Duration::from_millis(1500)).to_string();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["variant"], variant.name);
        assert_eq!((&read["cases"], &read["seconds"]), (&3.into(), &1.5.into()));
        assert_eq!(read["failures"][0], "n = 1: \"off\"");
        assert!(!text.contains('\n'));
    }
}

//! What was measured, for people and for programs.

use std::fmt::Write as _;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{Measured, Parity, profile::Profile};
use crate::session::ModelFile;
use crate::size::size;
use crate::submit::DeviceModel;

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Text,
    /// A Markdown table.
    Md,
    /// A JSON array, one object for each test.
    Json,
    /// A header and a line for each test.
    Csv,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "text" => Format::Text,
            "md" => Format::Md,
            "json" => Format::Json,
            "csv" => Format::Csv,
            _ => return Err("expected text, md, json or csv".to_owned()),
        })
    }
}

/// Speeds, and what they are speeds of.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Architecture and the format that most of the weights are in.
    pub model: String,
    /// Bytes of the file.
    pub model_bytes: u64,
    /// Weights.
    pub n_params: usize,
    /// Device.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// Accuracy class and types.
    pub class: String,
    /// Rows of a prompt fed at once.
    pub window: u32,
    /// Steps that run ahead of the id that the host has read.
    pub run_ahead: usize,
    /// What the gate saw.
    pub parity: Parity,
    /// Speeds.
    pub tests: Vec<Measured>,
    /// Repetitions that were dropped first, of each test.
    pub dropped: usize,
    /// Where the time goes, if that was asked for.
    pub profile: Option<Profile>,
}

impl Report {
    pub(super) fn new(
        file: &ModelFile,
        model: &DeviceModel,
        parity: Parity,
        tests: Vec<Measured>,
        profile: Option<Profile>,
    ) -> Self {
        let plan = model.plan();
        let caps = model.caps();
        Self {
            model: file.model.architecture.to_owned(),
            model_bytes: file.gguf.file_bytes(),
            n_params: file.model.graph.n_weight_elems(),
            device: caps.name.clone(),
            driver: caps.driver.clone(),
            class: plan.class.to_string(),
            window: plan.window,
            run_ahead: model.slots().run_ahead(),
            parity,
            tests,
            dropped: 1,
            profile,
        }
    }

    /// The report in a format, ending with a newline.
    pub fn print(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Md => self.md(),
            Format::Json => format!("{:#}\n", self.json()),
            Format::Csv => self.csv(),
        }
    }

    fn text(&self) -> String {
        let Parity { kinds, outputs, worst, rms_decode, rms_prompt, spread, bar } = self.parity;
        let mut text = format!(
            "model   {}, {}, {:.2} billion weights\ndevice  {} ({})\nclass   {}; prompts in windows of {} rows; {} ahead\n\
             parity  {kinds} kinds of launches, {outputs} outputs, the worst at {worst:.3} of its bound; forced tokens \
             off the plain plan by rms {rms_decode:.5}, as a prompt {rms_prompt:.5}, of {bar:.5} allowed where \
             logits spread by {spread:.2}\n",
            self.model,
            size(self.model_bytes),
            self.n_params as f64 / 1e9,
            self.device,
            self.driver,
            self.class,
            self.window,
            match self.run_ahead {
                1 => "1 step".to_owned(),
                n => format!("{n} steps"),
            },
        );
        for test in &self.tests {
            let (low, high) = test.spread();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:<7} {:.2} tokens/s, {low:.2} to {high:.2} in {} repetitions",
                test.name(),
                test.median(),
                test.samples.len()
            );
        }
        text
    }

    fn md(&self) -> String {
        let mut text = "| model | size | params | device | test | t/s | rms to the plain plan |\n".to_owned();
        text += "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n";
        for test in &self.tests {
            let (mean, deviation) = test.mean();
            let _ = writeln!(
                text,
                "| {} | {} | {:.2} B | {} | {} | {mean:.2} ± {deviation:.2} | {:.5} |",
                self.model,
                size(self.model_bytes),
                self.n_params as f64 / 1e9,
                self.device,
                test.name(),
                self.parity.rms_decode,
            );
        }
        text
    }

    fn json(&self) -> Value {
        let Parity { kinds, outputs, worst, rms_decode, rms_prompt, spread, bar } = self.parity;
        let test = |test: &Measured| {
            let ((mean, deviation), (low, high)) = (test.mean(), test.spread());
            json!({
                "test": test.name(),
                "n_prompt": test.n_prompt,
                "n_gen": test.n_gen,
                "n_depth": test.depth,
                "model_type": self.model,
                "model_size": self.model_bytes,
                "model_n_params": self.n_params,
                "device": self.device,
                "driver": self.driver,
                "class": self.class,
                "window": self.window,
                "run_ahead": self.run_ahead,
                "dropped": self.dropped,
                "samples_ts": test.samples,
                "median_ts": test.median(),
                "avg_ts": mean,
                "stddev_ts": deviation,
                "min_ts": low,
                "max_ts": high,
                "parity": {
                    "kinds": kinds,
                    "outputs": outputs,
                    "worst_of_bound": worst,
                    "rms_decode": rms_decode,
                    "rms_prompt": rms_prompt,
                    "rms_bar": bar,
                    "logits_spread": spread,
                },
            })
        };
        Value::Array(self.tests.iter().map(test).collect())
    }

    fn csv(&self) -> String {
        let mut text =
            "test,n_prompt,n_gen,n_depth,median_ts,avg_ts,stddev_ts,min_ts,max_ts,rms_decode,device\n"
                .to_owned();
        for test in &self.tests {
            let ((mean, deviation), (low, high)) = (test.mean(), test.spread());
            let _ = writeln!(
                text,
                "{},{},{},{},{:.3},{mean:.3},{deviation:.3},{low:.3},{high:.3},{:.6},\"{}\"",
                test.name(),
                test.n_prompt,
                test.n_gen,
                test.depth,
                test.median(),
                self.parity.rms_decode,
                self.device.replace('"', "\"\""),
            );
        }
        text
    }
}

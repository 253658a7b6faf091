//! A plan as text: residency, kernels with their reasons, launches with the barriers between them.

use std::collections::BTreeMap;
use std::fmt;

use super::{Holds, PageGroup, Plan, PlannedBuffer, PlannedLaunch, PlannedStep};
use crate::size::size;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device   {}", self.device)?;
        if !self.unused.is_empty() {
            writeln!(f, "         of no use here yet: {}", self.unused.join(", "))?;
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(|capability| capability.name()).collect();
            writeln!(f, "         left out as asked: {}", names.join(", "))?;
        }
        let context = self.context;
        writeln!(
            f,
            "context  {} positions in {} pages a layer: {}",
            context.n_ctx, context.n_pages, self.context_reason
        )?;
        for PageGroup { window, n_pages } in &self.groups {
            if let Some(window) = window {
                writeln!(
                    f,
                    "         {n_pages} pages a layer that sees {window} positions, and gives back what it does not"
                )?;
            }
        }
        writeln!(f, "class    {}, keys and values {}", self.class, self.context.kv_type.name())?;
        self.unmet.iter().chain(&self.declines).try_for_each(|reason| writeln!(f, "declined {reason}"))?;
        self.residency(f)?;
        self.list_kernels(f)?;
        self.steps.iter().try_for_each(|step| self.step(f, step))
    }
}

impl Plan {
    fn residency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let need = self.need();
        writeln!(f, "memory   {} of {}", size(need.total()), self.room)?;
        let mut part = |what: &str, bytes: u64, member: &dyn Fn(&Holds) -> bool| {
            let buffers = || self.buffers.iter().filter(|b| member(&b.holds));
            let largest = buffers().map(|b| b.bytes).max().unwrap_or(0);
            writeln!(
                f,
                "  {what:<12} {:>10} in {} buffers, the largest {}",
                size(bytes),
                buffers().count(),
                size(largest)
            )
        };
        part("weights", need.weights, &|h| matches!(h, Holds::Blocks { .. } | Holds::Floats(_)))?;
        part("angles", need.angles, &|h| matches!(h, Holds::Angles(_)))?;
        part("kv pages", need.kv, &|h| matches!(h, Holds::Keys { .. } | Holds::Values { .. }))?;
        part("activations", need.activations, &|h| {
            matches!(h, Holds::Scratch | Holds::Parts | Holds::Logits)
        })?;
        let is_step = |h: &Holds| {
            let block = matches!(h, Holds::PageTable { .. } | Holds::Step | Holds::OutputStep);
            block || matches!(h, Holds::Samplers | Holds::Candidates | Holds::Chosen | Holds::Ring)
        };
        part("step", need.step, &is_step)
    }

    fn list_kernels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernels  {}", self.kernels.len())?;
        let width = self.kernels.keys().map(String::len).max().unwrap_or(0);
        for (name, kernel) in &self.kernels {
            writeln!(f, "  {name:<width$}  {}: {}", kernel.role, kernel.reason)?;
        }
        Ok(())
    }

    fn step(&self, f: &mut fmt::Formatter<'_>, step: &PlannedStep) -> fmt::Result {
        let barriers = self.barriers(step);
        let waits = barriers.iter().filter(|wait| **wait).count();
        let (rows, outputs) = (step.class.rows, step.class.outputs);
        let whose = if self.matrices { format!(" of {}", step.class.width) } else { String::new() };
        writeln!(
            f,
            "step     of up to {rows} rows and {outputs} outputs{whose}: {} launches, {waits} barriers (|)",
            barriers.len()
        )?;
        let mut writers = BTreeMap::new();
        let lines: Vec<Line> =
            step.launches.iter().zip(barriers).map(|(l, wait)| self.line(l, wait, &mut writers)).collect();
        let mut at = 0;
        while at < lines.len() {
            let (period, times) = repeat(&lines[at..]);
            let end = at + period * times;
            if times == 1 {
                writeln!(f, "  {}", lines[at].closed())?;
            } else {
                let layers = || lines[at..end].iter().filter_map(|line| line.layer);
                match (layers().min(), layers().max()) {
                    (Some(first), Some(last)) => writeln!(f, "  {times} times, layers {first} to {last}")?,
                    _ => writeln!(f, "  {times} times")?,
                }
                lines[at..at + period].iter().try_for_each(|line| writeln!(f, "    {}", line.text))?;
            }
            at = end;
        }
        Ok(())
    }

    /// A launch on one line. A value between launches has the name of the launch that made it, and what goes without
    /// saying is left out: the launch's own weight, the step block, where a value lies.
    fn line<'a>(
        &'a self,
        launch: &'a PlannedLaunch,
        wait: bool,
        writers: &mut BTreeMap<usize, String>,
    ) -> Line {
        let args = &launch.call.args;
        let (label, layer) = open_layer(&launch.label);
        let bindings = self.kernels.get(&launch.call.name).map_or(&[][..], |k| &k.staged.layout.bindings);
        let pairs = || bindings.iter().zip(args.bindings.iter().map(|range| range.buffer.0 as usize));
        let scratch = |at: usize| matches!(self.buffers[at].holds, Holds::Scratch | Holds::Parts);
        let reads: Vec<String> = pairs()
            .filter(|(binding, _)| binding.access.reads())
            .filter_map(|(_, at)| match writers.get(&at) {
                Some(writer) if scratch(at) => Some(writer.clone()),
                _ => named(&self.buffers[at]).filter(|name| *name != label),
            })
            .collect();
        let mut writes = Vec::new();
        let n_made = pairs().filter(|(binding, at)| binding.access.writes() && scratch(*at)).count();
        for (binding, at) in pairs().filter(|(binding, _)| binding.access.writes()) {
            if scratch(at) {
                let stem = label.strip_prefix("blk.*.").unwrap_or(&label);
                let made = if n_made > 1 { format!("{stem}.{}", binding.name) } else { stem.to_owned() };
                writers.insert(at, made);
            } else {
                writes.push(match self.buffers[at].holds {
                    Holds::Step => "step".to_owned(),
                    Holds::OutputStep => "outputs".to_owned(),
                    _ => named(&self.buffers[at]).unwrap_or_default(),
                });
            }
        }
        let (wait, name, [x, y, z]) = (if wait { "|" } else { " " }, &launch.call.name, args.grid.0);
        let mut text = format!("{wait} {label}: {name} {x}×{y}×{z}");
        if !reads.is_empty() {
            text += &format!(" of {}", reads.join(" "));
        }
        if !writes.is_empty() {
            text += &format!(" → {}", writes.join(" "));
        }
        Line { text, layer }
    }
}

/// What a buffer is called in a list of operands; none where it goes without saying.
fn named(buffer: &PlannedBuffer) -> Option<String> {
    Some(match &buffer.holds {
        Holds::Blocks { .. } | Holds::Floats(_) => open_layer(&buffer.name).0,
        Holds::Angles(_) => "angles".to_owned(),
        Holds::Keys { .. } => "keys".to_owned(),
        Holds::Values { .. } => "values".to_owned(),
        Holds::Logits => "logits".to_owned(),
        Holds::Samplers => "samplers".to_owned(),
        Holds::Candidates => buffer.name.clone(),
        Holds::Chosen => "chosen".to_owned(),
        Holds::Ring => "ring".to_owned(),
        Holds::PageTable { .. } | Holds::Step | Holds::OutputStep | Holds::Scratch | Holds::Parts => {
            return None;
        }
    })
}

struct Line {
    /// With `blk.*` for the layer.
    text: String,
    layer: Option<usize>,
}

impl Line {
    /// With the layer's number.
    fn closed(&self) -> String {
        match self.layer {
            Some(layer) => self.text.replacen("blk.*", &format!("blk.{layer}"), 1),
            None => self.text.clone(),
        }
    }
}

/// `blk.7.attn_q.weight` as `blk.*.attn_q` and 7.
fn open_layer(name: &str) -> (String, Option<usize>) {
    let short = name.strip_suffix(".weight").unwrap_or(name);
    let parts = short.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match parts.and_then(|(layer, stem)| Some((layer.parse().ok()?, stem))) {
        Some((layer, stem)) => (format!("blk.*.{stem}"), Some(layer)),
        None => (short.to_owned(), None),
    }
}

/// The run of equal lines that the list starts with, and how often it follows itself; the one that covers most.
fn repeat(lines: &[Line]) -> (usize, usize) {
    /// Launches of a few layers, whose scratch may take turns.
    const LONGEST: usize = 160;
    let times = |period: usize| {
        let run = &lines[..period];
        lines
            .chunks_exact(period)
            .take_while(|c| c.iter().map(|l| &l.text).eq(run.iter().map(|l| &l.text)))
            .count()
    };
    let candidates = (1..=LONGEST.min(lines.len() / 2)).map(|period| (period, times(period)));
    let repeated = candidates.filter(|(_, times)| *times > 1);
    repeated.max_by_key(|(period, times)| (period * times, usize::MAX - period)).unwrap_or((1, 1))
}

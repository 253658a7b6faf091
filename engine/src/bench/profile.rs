//! Where the time of a step goes: by role, against the speed of the device's memory; and how often each kernel runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use kiln_abi::{BufferRange, Device as _, DeviceError, Kernel as _, LaunchError};
use kiln_kernels::{
    read_all::{ReadAll, ReadAllArgs, ReadPush},
    step::StepRow,
};
use kiln_runtime::{Gpu, RecordOptions, Recorded};

use super::{Stage, buffers::Buffers};
use crate::graph::{Graph, Op};
use crate::plan::{Holds, Plan, PlannedLaunch, PlannedStep};
use crate::record::{Pipelines, record};
use crate::submit::DeviceModel;

/// Times that a step is run; medians count.
const REPEATS: usize = 7;
/// The same with the first, which does not count.
const RUNS: usize = REPEATS + 1;
/// Bytes that are read to learn how fast memory is, at most: more than caches hold.
const READ_BYTES: u64 = 640 << 20;

/// What one role takes of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleTime {
    /// The part that its kernels play.
    pub role: String,
    /// Launches.
    pub launches: usize,
    /// Nanoseconds on the device.
    pub ns: f64,
    /// Bytes of their operands, each counted once a launch.
    pub bytes: u64,
}

/// One class of step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepProfile {
    /// Rows fed.
    pub rows: u32,
    /// Position of the first.
    pub position: u32,
    /// Largest first.
    pub roles: Vec<RoleTime>,
    /// Kernel → launches.
    pub census: BTreeMap<String, usize>,
    /// From submit to the end with every launch timed, as the host sees it.
    pub host: Duration,
    /// The same without timing the launches.
    pub undisturbed: Duration,
}

impl StepProfile {
    /// Nanoseconds of all roles, with what passes between a launch and the one before it.
    pub fn ns(&self) -> f64 {
        self.roles.iter().map(|role| role.ns).sum()
    }

    /// Nanoseconds of the step as the host sees it.
    pub fn host_ns(&self) -> f64 {
        self.host.as_secs_f64() * 1e9
    }

    /// Nanoseconds that no launch takes: from the submit to the first of them, and from the last to the host's notice.
    pub fn outside_ns(&self) -> f64 {
        (self.host_ns() - self.ns()).max(0.0)
    }
}

/// Steps of one row and of a whole window.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Bytes that a kernel which only reads gets in a second; none where there is no room for them.
    pub read_bytes_per_second: Option<f64>,
    /// The steps.
    pub steps: Vec<StepProfile>,
}

/// Profiles a step of one row after `depth` positions, and the window of at most `most_rows` that starts there; `stage` is
/// told how far it is.
///
/// # Errors
/// A device without timestamps, or one that fails.
pub fn profile(
    gpu: &Gpu,
    model: &DeviceModel,
    graph: &Graph,
    depth: usize,
    most_rows: usize,
    stage: Stage,
) -> Result<Profile, LaunchError> {
    if gpu.info().timestamps.is_none() {
        let reason = "its queue has no timestamps".to_owned();
        return Err(DeviceError::Refused { kernel: "a profile".to_owned(), reason }.into());
    }
    let plan = model.plan();
    let buffers = Buffers::new(gpu, model)?;
    let n_ctx = plan.context.n_ctx;
    let depth = u32::try_from(depth).unwrap_or(u32::MAX).min(n_ctx - 1);
    let mut pipelines = Pipelines::default();
    let mut steps = Vec::new();
    // The narrowest that has room for so many rows, or else the widest.
    let most_rows = u32::try_from(most_rows).unwrap_or(u32::MAX);
    let with_room = |step: &&PlannedStep| (step.class.rows < most_rows, step.class.rows.abs_diff(most_rows));
    let widest = plan.steps.iter().filter(|step| step.class.outputs == 1).min_by_key(with_room);
    let single = plan.steps.iter().find(|step| step.class.rows == 1);
    let windows = widest.map_or(0, |step| depth.div_ceil(step.class.rows) as usize);
    let profiled = [widest, single].iter().flatten().count();
    let mut progress = Progress { done: 0, total: windows + (profiled + 1) * RUNS, stage };
    progress.report();
    if let Some(step) = widest {
        let mut taken = Taken::new(gpu, plan, &buffers, step, &mut pipelines)?;
        let rows = step.class.rows;
        // What the profiled steps attend to.
        for first in (0..depth).step_by(rows as usize) {
            taken.seed(first, rows.min(depth - first))?;
            taken.plain.run()?;
            progress.ran();
        }
        let rows = rows.min(most_rows).min(n_ctx - depth);
        // A step of one row follows.
        if rows > 1 {
            steps.push(taken.profile(graph, depth, rows, &mut progress)?);
        }
    }
    if let Some(step) = single {
        let mut taken = Taken::new(gpu, plan, &buffers, step, &mut pipelines)?;
        steps.push(taken.profile(graph, depth, 1, &mut progress)?);
    }
    steps.reverse();
    let read_bytes_per_second = read_speed(gpu, &mut progress)?;
    progress.end();
    Ok(Profile { read_bytes_per_second, steps })
}

/// Runs of steps and of the kernel that only reads, done and in all.
struct Progress<'a> {
    done: usize,
    total: usize,
    stage: Stage<'a>,
}

impl Progress<'_> {
    fn report(&self) {
        (self.stage)("profiling", self.done, self.total);
    }

    fn ran(&mut self) {
        self.done += 1;
        self.report();
    }

    /// Whatever had no room to run is done too.
    fn end(&mut self) {
        self.done = self.total;
        self.report();
    }
}

/// A class of step, recorded with and without a timestamp after each launch.
struct Taken<'a> {
    plan: &'a Plan,
    step: &'a PlannedStep,
    buffers: &'a Buffers<'a>,
    plain: Recorded,
    timed: Recorded,
}

impl<'a> Taken<'a> {
    fn new(
        gpu: &Gpu,
        plan: &'a Plan,
        buffers: &'a Buffers<'a>,
        step: &'a PlannedStep,
        pipelines: &mut Pipelines,
    ) -> Result<Self, LaunchError> {
        let timed = RecordOptions { timestamps: true, ..RecordOptions::default() };
        Ok(Self {
            plan,
            step,
            buffers,
            plain: record(gpu, &[(step, &buffers.ids)], pipelines, RecordOptions::default())?,
            timed: record(gpu, &[(step, &buffers.ids)], pipelines, timed)?,
        })
    }

    fn seed(&self, first: u32, n_rows: u32) -> Result<(), DeviceError> {
        let token = |position: u32| position * 7919 % self.plan.n_vocab;
        let row = |position: u32| StepRow { token: token(position), position, slot: 0 };
        let rows: Vec<StepRow> = (first..first + n_rows).map(row).collect();
        self.buffers.seed(self.plan, &rows, &[n_rows - 1], self.step.class.rows)
    }

    fn profile(
        &mut self,
        graph: &Graph,
        position: u32,
        n_rows: u32,
        progress: &mut Progress<'_>,
    ) -> Result<StepProfile, LaunchError> {
        let run = |recorded: &Recorded| -> Result<Duration, LaunchError> {
            self.seed(position, n_rows)?;
            let started = Instant::now();
            recorded.run()?;
            Ok(started.elapsed())
        };
        let (mut undisturbed, mut timed) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            undisturbed.push(run(&self.plain)?);
            let host = run(&self.timed)?;
            let timings = self.timed.timings()?.unwrap_or_default();
            timed.push((host, timings));
            progress.ran();
        }
        // The first of each pays for what later ones find done.
        let mut undisturbed = undisturbed.split_off(1);
        let mut timed = timed.split_off(1);
        undisturbed.sort();
        timed.sort_by_key(|(host, _)| *host);
        let (host, timings) = timed.swap_remove(REPEATS / 2);

        let bytes = self.bytes(graph, position, n_rows);
        let mut roles: BTreeMap<&str, RoleTime> = BTreeMap::new();
        let mut census = BTreeMap::new();
        for ((launch, timing), bytes) in self.step.launches.iter().zip(&timings).zip(bytes) {
            let name = launch.call.name.as_str();
            let role = self.plan.kernels.get(name).map_or(name, |kernel| kernel.role.as_str());
            let new = || RoleTime { role: role.to_owned(), launches: 0, ns: 0.0, bytes: 0 };
            let time = roles.entry(role).or_insert_with(new);
            time.launches += 1;
            time.ns += timing.ns;
            time.bytes += bytes;
            *census.entry(name.to_owned()).or_insert(0) += 1;
        }
        let mut roles: Vec<RoleTime> = roles.into_values().collect();
        roles.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        Ok(StepProfile { rows: n_rows, position, roles, census, host, undisturbed: undisturbed[REPEATS / 2] })
    }

    /// Bytes that each launch has to move, its operands taken once.
    fn bytes(&self, graph: &Graph, position: u32, n_rows: u32) -> Vec<u64> {
        let last = u64::from(position + n_rows);
        let op_of = |at: usize| {
            let word = self.step.words.iter().find(|word| word.launches.contains(&at))?;
            // Of words that are launched together, the one that reads most.
            let nodes = graph.nodes.get(word.nodes.clone())?;
            let attends = nodes.iter().find(|node| matches!(node.op, Op::Attention { .. }));
            attends.or(nodes.first()).map(|node| node.op)
        };
        let bytes = |(at, launch): (usize, &PlannedLaunch)| {
            let op = op_of(at);
            let kernel = self.plan.kernels.get(&launch.call.name);
            // What stores keys may be of one word with what attends to them.
            let stores = kernel.is_some_and(|kernel| kernel.role != "attention");
            launch.call.args.bindings.iter().map(|range| self.moved(range, op, stores, last, n_rows)).sum()
        };
        self.step.launches.iter().enumerate().map(bytes).collect()
    }

    fn moved(&self, range: &BufferRange, op: Option<Op>, stores: bool, last: u64, n_rows: u32) -> u64 {
        let (plan, n_rows) = (self.plan, u64::from(n_rows));
        match (&plan.buffers[range.buffer.0 as usize].holds, op) {
            // One row of the table for each row of the step.
            (Holds::Blocks { m, .. }, Some(Op::Embed { .. })) => range.bytes / u64::from(*m) * n_rows,
            (
                Holds::Keys { group, .. } | Holds::Values { group, .. },
                Some(Op::Attention { attention, .. }),
            ) => {
                let seen = attention.window.map_or(last, |window| last.min(window as u64 + n_rows));
                let seen = if stores { n_rows } else { seen };
                range.bytes * seen
                    / (u64::from(plan.groups[*group].n_pages) * u64::from(kiln_kernels::kv_store::PAGE))
            }
            (Holds::Parts, Some(Op::Attention { attention, .. })) => {
                let n_ctx = u64::from(plan.context.n_ctx);
                let most = attention.window.map_or(n_ctx, |window| n_ctx.min(window as u64));
                range.bytes * n_rows / u64::from(self.step.class.rows) * last.min(most) / most
            }
            (Holds::Scratch, _) => range.bytes * n_rows / u64::from(plan.window.max(1)),
            (Holds::Angles(_), _) => range.bytes * n_rows / u64::from(plan.context.n_ctx),
            (Holds::Logits, _) => u64::from(plan.n_vocab) * 4,
            (Holds::Samplers, _) => range.bytes / u64::from(plan.context.n_slots),
            // A few words; how many candidates there are, the logits say.
            (Holds::Candidates | Holds::Chosen | Holds::Ring, _) => 0,
            _ => range.bytes,
        }
    }
}

/// Bytes that a kernel which only reads gets in a second, of memory too large for any cache.
fn read_speed(gpu: &Gpu, progress: &mut Progress<'_>) -> Result<Option<f64>, LaunchError> {
    let p = ReadPush::within(READ_BYTES.min(gpu.largest_buffer()).min(gpu.room().bytes / 4));
    if p.groups == 0 {
        return Ok(None);
    }
    let x = gpu.allocate(p.bytes_read(), "what is read")?;
    let y = gpu.allocate(p.bytes_written(), "sums of what is read");
    let best = y.clone().map_err(LaunchError::from).and_then(|y| {
        let range = |buffer, bytes| BufferRange { buffer, offset_bytes: 0, bytes };
        let (x, y) = (range(x, p.bytes_read()), range(y, p.bytes_written()));
        let options = RecordOptions { timestamps: true, ..RecordOptions::default() };
        let mut recorder = gpu.recorder("read_all", options)?;
        let args = ReadAll::new().bind(&ReadAllArgs { x: x.into(), y: y.into(), p });
        recorder.launch(&gpu.prepare(&ReadAll::new().stage()?)?, &args)?;
        let recorded = recorder.finish()?;
        let mut best: Option<f64> = None;
        for _ in 0..RUNS {
            recorded.run()?;
            progress.ran();
            let ns: f64 = recorded.timings()?.iter().flatten().map(|timing| timing.ns).sum();
            if ns > 0.0 {
                best = Some(best.map_or(ns, |best| best.min(ns)));
            }
        }
        Ok(best)
    });
    gpu.free(x);
    y.into_iter().for_each(|y| gpu.free(y));
    Ok(best?.map(|ns| p.bytes_read() as f64 / ns * 1e9))
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(speed) = self.read_bytes_per_second {
            writeln!(
                f,
                "memory   {:.1} GB/s for a kernel that only reads; shares below are of that",
                speed / 1e9
            )?;
        }
        for step in &self.steps {
            let (total, ms) = (step.host_ns(), |time: Duration| time.as_secs_f64() * 1e3);
            writeln!(
                f,
                "step     of {} rows at position {}: {:.3} ms, {:.1} % of it in its launches; {:.3} ms when nothing is \
                 timed",
                step.rows,
                step.position,
                ms(step.host),
                100.0 * step.ns() / total,
                ms(step.undisturbed),
            )?;
            for role in &step.roles {
                let speed = role.bytes as f64 / role.ns * 1e9;
                let share = self.read_bytes_per_second.map_or(0.0, |limit| 100.0 * speed / limit);
                writeln!(
                    f,
                    "  {:<14} {:>4} launches {:>10.3} ms {:>5.1} % {:>9.1} GB/s {:>5.1} % of memory",
                    role.role,
                    role.launches,
                    role.ns / 1e6,
                    100.0 * role.ns / total,
                    speed / 1e9,
                    share,
                )?;
            }
            writeln!(
                f,
                "  {:<29} {:>10.3} ms {:>5.1} % from the submit to the first launch, from the last to the host",
                "outside its launches",
                step.outside_ns() / 1e6,
                100.0 * step.outside_ns() / total,
            )?;
            let census = step.census.iter().map(|(kernel, n)| format!("{n} × {kernel}"));
            writeln!(f, "  launches: {}", census.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

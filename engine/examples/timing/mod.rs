//! What the examples that time kernels share: a device with its floor, buffers of random bytes, a clock.

use std::error::Error;
use std::time::{Duration, Instant};

use kiln_abi::{BufferId, BufferRange, Device as _, Kernel as _, LaunchArgs, StagedKernel};
use kiln_kernels::{
    conformance::{Random, plain_step},
    read_all::{ReadAll, ReadAllArgs, ReadPush},
    scale::{Scale, ScaleArgs, ScalePush},
};
use kiln_runtime::{CacheDir, Gpu, RecordOptions, RuntimeOptions};

/// More than any cache.
const ROTATED_BYTES: u64 = 200 << 20;

/// How long a launch runs before it is timed: clocks of an idle device are low, and making a pipeline leaves it idle.
const WARM: Duration = Duration::from_millis(120);

/// A device and its floor.
pub struct Bench {
    /// The device.
    pub gpu: Gpu,
    /// Random bytes without bit 6: in no format is a scale infinite or NaN then.
    pub tame: Vec<u8>,
    random: Vec<u8>,
    /// Microseconds of a bare dependent dispatch.
    dispatch: f64,
    /// Bytes per microsecond of a kernel that only reads.
    rate: f64,
}

impl Bench {
    /// The default device, its floor measured and printed.
    pub fn open() -> Result<Self, Box<dyn Error>> {
        let gpu =
            Gpu::open(&RuntimeOptions { cache: CacheDir::Off, statistics: true, ..Default::default() })?;
        let random = Random::new(1).bytes(16 << 20);
        let tame = random.iter().map(|byte| byte & 0xbf).collect();
        let mut bench = Bench { gpu, tame, random, dispatch: 0.0, rate: 0.0 };
        let one = bench.filled(&plain_step(1))?;
        let (x, y) = (bench.buffer(4096)?, bench.buffer(4096)?);
        let p = ScalePush { rows: 1, n: 64, factor: 1.0 };
        let bare = Scale::new().bind(&ScaleArgs { x: x.into(), step: one.into(), y: y.into(), p });
        bench.dispatch = bench.time(&Scale::new().stage()?, &[bare])?;
        let big = bench.buffer(bench.gpu.largest_buffer().min(640 << 20))?;
        let p = ReadPush::within(big.bytes);
        let sums = bench.buffer(p.bytes_written())?;
        let read = ReadAll::new().bind(&ReadAllArgs { x: big.into(), y: sums.into(), p });
        bench.rate = p.bytes_read() as f64 / bench.time(&ReadAll::new().stage()?, &[read])?;
        bench.gpu.free(big.buffer);
        bench.gpu.free(sums.buffer);
        let (caps, rate) = (bench.gpu.caps(), bench.rate / 1e3);
        println!("{} ({}): dispatch {:.2} us, reads {rate:.0} GB/s", caps.name, caps.driver, bench.dispatch);
        Ok(bench)
    }

    /// Microseconds that a launch which reads so many bytes takes at least.
    pub fn floor(&self, bytes: u64) -> f64 {
        self.dispatch + bytes as f64 / self.rate
    }

    /// Buffers of random bytes, more of them than a cache holds.
    pub fn rotated(&self, bytes: u64) -> Result<Vec<BufferRange>, Box<dyn Error>> {
        (0..ROTATED_BYTES.div_ceil(bytes).max(2)).map(|_| self.buffer(bytes)).collect()
    }

    /// Random bytes.
    pub fn buffer(&self, bytes: u64) -> Result<BufferRange, Box<dyn Error>> {
        self.repeated(bytes, &self.random)
    }

    /// `data` again and again.
    pub fn repeated(&self, bytes: u64, data: &[u8]) -> Result<BufferRange, Box<dyn Error>> {
        let buffer = self.gpu.allocate(bytes, "bench")?;
        for at in (0..bytes).step_by(data.len()) {
            let n = (bytes - at).min(data.len() as u64) as usize;
            self.gpu.write(buffer, at, &data[..n])?;
        }
        Ok(BufferRange { buffer, offset_bytes: 0, bytes })
    }

    /// What one launch leaves in `range`.
    pub fn result(
        &self,
        kernel: &StagedKernel,
        args: &LaunchArgs,
        range: BufferRange,
    ) -> Result<Vec<f32>, Box<dyn Error>> {
        let mut recorder = self.gpu.recorder("result", RecordOptions::default())?;
        recorder.launch(&self.gpu.prepare(kernel)?, args)?;
        recorder.finish()?.run()?;
        let mut bytes = vec![0; range.bytes as usize];
        self.gpu.read(range.buffer, 0, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// These bytes.
    pub fn filled(&self, bytes: &[u8]) -> Result<BufferRange, Box<dyn Error>> {
        let buffer: BufferId = self.gpu.allocate(bytes.len() as u64, "bench")?;
        self.gpu.write(buffer, 0, bytes)?;
        Ok(BufferRange { buffer, offset_bytes: 0, bytes: bytes.len() as u64 })
    }

    /// What the driver says of a kernel's code, in brackets: registers, bytes of code and of memory that it takes beside them.
    pub fn code(&self, kernel: &StagedKernel) -> Result<String, Box<dyn Error>> {
        let prepared = self.gpu.prepare(kernel)?;
        let said = prepared.statistics().iter().filter(|s| s.value > 0.0);
        let said: Vec<String> = said.map(|s| format!("{} {}", s.name, s.value)).collect();
        Ok(if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) })
    }

    /// Microseconds of a launch in a row of them, the best of five runs.
    pub fn time(&self, kernel: &StagedKernel, launches: &[LaunchArgs]) -> Result<f64, Box<dyn Error>> {
        let prepared = self.gpu.prepare(kernel)?;
        let n = 600usize.next_multiple_of(launches.len());
        let mut recorder = self.gpu.recorder("bench", RecordOptions::default())?;
        for i in 0..n {
            recorder.launch(&prepared, &launches[i % launches.len()])?;
        }
        let recorded = recorder.finish()?;
        let start = Instant::now();
        while start.elapsed() < WARM {
            recorded.run()?;
        }
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            recorded.run()?;
            best = best.min(start.elapsed().as_secs_f64() * 1e6 / n as f64);
        }
        Ok(best)
    }
}

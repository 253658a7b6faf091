//! What a driver says of the code it made: registers, spills, instructions, as each names them.

use ash::{khr::pipeline_executable_properties, vk};
use kiln_abi::DeviceError;

use crate::handle::DeviceHandle;

/// A number of a driver's about a pipeline's code.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistic {
    /// The driver's name for it.
    pub name: String,
    /// Its value; 0 or 1 for no or yes.
    pub value: f64,
}

/// All that the driver says of a pipeline that was made with the flag for it.
pub(crate) fn of(
    device: &DeviceHandle,
    pipeline: vk::Pipeline,
    kernel: &str,
) -> Result<Vec<Statistic>, DeviceError> {
    let calls = pipeline_executable_properties::Device::new(&device.instance.raw, &device.raw);
    let failed = |e| device.error("vkGetPipelineExecutableStatisticsKHR", kernel, e);
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    // SAFETY: the device has the extension and its feature is on; the pipeline is the device's and alive.
    let executables = unsafe { calls.get_pipeline_executable_properties(&info) }.map_err(failed)?;
    let mut found = Vec::new();
    for index in 0..executables.len() as u32 {
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
        // SAFETY: as above; the pipeline was made with CAPTURE_STATISTICS and has that executable.
        let statistics = unsafe { calls.get_pipeline_executable_statistics(&info) }.map_err(failed)?;
        found.extend(statistics.iter().filter_map(read));
    }
    Ok(found)
}

fn read(statistic: &vk::PipelineExecutableStatisticKHR<'_>) -> Option<Statistic> {
    let name = statistic.name_as_c_str().ok()?.to_string_lossy().into_owned();
    let value = statistic.value;
    // SAFETY: the format says which field the driver wrote.
    let value = unsafe {
        match statistic.format {
            vk::PipelineExecutableStatisticFormatKHR::BOOL32 => f64::from(value.b32),
            vk::PipelineExecutableStatisticFormatKHR::INT64 => value.i64 as f64,
            vk::PipelineExecutableStatisticFormatKHR::UINT64 => value.u64 as f64,
            vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => value.f64,
            _ => return None,
        }
    };
    Some(Statistic { name, value })
}

#[cfg(test)]
mod tests {
    use vk::{PipelineExecutableStatisticFormatKHR as Format, PipelineExecutableStatisticValueKHR as Value};

    use super::*;

    #[test]
    fn each_format_is_read_as_what_it_is_and_an_unknown_one_not_at_all() {
        let of = |format, value| {
            let statistic = vk::PipelineExecutableStatisticKHR::default().format(format).value(value);
            read(&statistic.name(c"Register Count").unwrap()).map(|s| (s.name, s.value))
        };
        for (format, value, expected) in [
            (Format::BOOL32, Value { b32: 1 }, 1.0),
            (Format::INT64, Value { i64: -3 }, -3.0),
            (Format::UINT64, Value { u64: 1 << 40 }, (1u64 << 40) as f64),
            (Format::FLOAT64, Value { f64: 0.5 }, 0.5),
        ] {
            assert_eq!(of(format, value), Some(("Register Count".to_owned(), expected)));
        }
        assert_eq!(of(Format::from_raw(99), Value { u64: 1 }), None);
    }
}

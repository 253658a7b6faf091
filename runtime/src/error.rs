//! Why a device could not be opened. What fails on an open device is an [`abi` device error](kiln_abi::DeviceError).

use kiln_abi::DeviceError;
use thiserror::Error;

/// Why no device was opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The Vulkan loader library is not installed.
    #[error(
        "the Vulkan loader was not found ({reason}); install it (libvulkan1 on Debian and Ubuntu, vulkan-loader \
         on Fedora, vulkan-icd-loader on Arch) together with the driver of your GPU"
    )]
    NoLoader {
        /// What the system said.
        reason: String,
    },
    /// The loader is there, a driver is not.
    #[error(
        "the Vulkan loader found no driver ({reason}); install the one of your GPU (nvidia-driver, \
         mesa-vulkan-drivers), and check VK_DRIVER_FILES if it is set"
    )]
    NoDriver {
        /// What the loader said.
        reason: String,
    },
    /// The loader itself predates Vulkan 1.3.
    #[error("the Vulkan loader speaks Vulkan {found}, Kiln needs 1.3; update the loader")]
    OldLoader {
        /// The loader's version.
        found: String,
    },
    /// Validation was asked for and its layer is not installed.
    #[error(
        "VK_LAYER_KHRONOS_validation is not installed; install vulkan-validationlayers, or set VK_LAYER_PATH to \
         the folder of its manifest"
    )]
    NoValidationLayer,
    /// There are devices, none of which Kiln can use.
    #[error("no device that Kiln can use; it found:\n{devices}")]
    NoUsableDevice {
        /// The devices, one a line, each with its reasons.
        devices: String,
    },
    /// The selector names no device.
    #[error("no device matches {selector:?}; choose one by index or by a part of its name:\n{devices}")]
    UnknownDevice {
        /// What was asked for.
        selector: String,
        /// The devices, one a line.
        devices: String,
    },
    /// The selector names several devices.
    #[error("{selector:?} matches {matches} devices; choose one by index:\n{devices}")]
    AmbiguousDevice {
        /// What was asked for.
        selector: String,
        /// How many match.
        matches: usize,
        /// The devices that match, one a line.
        devices: String,
    },
    /// The chosen device lacks something.
    #[error("Kiln cannot use {device}: {reasons}")]
    Unusable {
        /// The device.
        device: String,
        /// Everything it lacks.
        reasons: String,
    },
    /// A Vulkan call failed while the device was opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

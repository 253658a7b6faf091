//! The loader, the Vulkan instance and the validation layer's messages.

use std::{
    ffi::{CStr, OsStr, c_char, c_void},
    sync::{Arc, Mutex, OnceLock},
};

use ash::{Entry, ext::debug_utils, vk};

use crate::{
    RuntimeError,
    handle::failed,
    info::ApiVersion,
    sync::{lifecycle, lock},
};

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";
/// Hazards within a command buffer, between submits, and of what kernels do to their storage buffers.
const SETTINGS: [&CStr; 3] =
    [c"validate_sync", c"syncval_submit_time_validation", c"syncval_shader_accesses_heuristic"];

/// Every warning and error of the validation layer, in order. It outlives the device, so that leaks show.
#[derive(Clone, Debug, Default)]
pub struct ValidationLog(Arc<Mutex<Vec<String>>>);

impl ValidationLog {
    /// The messages so far; always empty when validation is off.
    pub fn messages(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

/// A loaded instance.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    debug: Option<(debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    pub(crate) log: ValidationLog,
    /// The version of Vulkan that the validation layer was made for, where it is on.
    pub(crate) layer: Option<ApiVersion>,
    pub(crate) entry: Entry,
}

impl Instance {
    /// The process's plain instance, or a new one with the validation layer.
    ///
    /// The plain one stays until the process ends and keeps loader and drivers in memory: drivers have been seen to
    /// hang, and after some thirty times to refuse, when they are unloaded and loaded again.
    pub(crate) fn open(validation: bool) -> Result<Arc<Self>, RuntimeError> {
        static RESIDENT: OnceLock<Arc<Instance>> = OnceLock::new();
        let _turn = lifecycle();
        let resident = match RESIDENT.get() {
            Some(resident) => resident.clone(),
            None => {
                let made = Arc::new(Self::create(load(None)?, false)?);
                RESIDENT.get_or_init(|| made).clone()
            }
        };
        if validation { Ok(Arc::new(Self::create(resident.entry.clone(), true)?)) } else { Ok(resident) }
    }

    fn create(entry: Entry, validation: bool) -> Result<Self, RuntimeError> {
        // SAFETY: the loader is in memory.
        let version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(|e| failed("vkEnumerateInstanceVersion", "the loader", e))?
            .unwrap_or(vk::API_VERSION_1_0);
        if version < vk::API_VERSION_1_3 {
            let found = ApiVersion::from_raw(version).to_string();
            return Err(RuntimeError::OldLoader { found });
        }
        let log = ValidationLog::default();
        let (raw, debug) =
            if validation { create_validated(&entry, &log)? } else { (create(&entry, &app_info())?, None) };
        let layer = validation.then(|| layer_version(&entry)).flatten();
        Ok(Self { raw, debug, log, layer, entry })
    }

    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>, RuntimeError> {
        let _turn = lifecycle();
        // SAFETY: the instance lives as long as self.
        let devices = unsafe { self.raw.enumerate_physical_devices() };
        match devices {
            Ok(devices) if devices.is_empty() => {
                Err(RuntimeError::NoDriver { reason: "it lists no device".into() })
            }
            Ok(devices) => Ok(devices),
            Err(vk::Result::ERROR_INITIALIZATION_FAILED) => {
                Err(RuntimeError::NoDriver { reason: "no driver could be initialized".into() })
            }
            Err(e) => Err(failed("vkEnumeratePhysicalDevices", "the instance", e).into()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _turn = lifecycle();
        // SAFETY: every device holds this instance through an Arc, so none is left; the messenger goes first.
        unsafe {
            if let Some((debug, messenger)) = &self.debug {
                debug.destroy_debug_utils_messenger(*messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn load(path: Option<&OsStr>) -> Result<Entry, RuntimeError> {
    // SAFETY: the library is the system's Vulkan loader, whose initializers may run in any process.
    let loaded = unsafe {
        match path {
            Some(path) => Entry::load_from(path),
            None => Entry::load(),
        }
    };
    loaded.map_err(|e| RuntimeError::NoLoader { reason: e.to_string() })
}

fn layer_version(entry: &Entry) -> Option<ApiVersion> {
    // SAFETY: the loader is in memory.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(LAYER));
    layer.map(|layer| ApiVersion::from_raw(layer.spec_version))
}

fn app_info() -> vk::InstanceCreateInfo<'static> {
    const APP: vk::ApplicationInfo<'static> = vk::ApplicationInfo {
        s_type: vk::StructureType::APPLICATION_INFO,
        p_next: std::ptr::null(),
        p_application_name: c"kiln".as_ptr(),
        application_version: 0,
        p_engine_name: c"kiln".as_ptr(),
        engine_version: 0,
        api_version: vk::API_VERSION_1_3,
        _marker: std::marker::PhantomData,
    };
    vk::InstanceCreateInfo::default().application_info(&APP)
}

fn create(entry: &Entry, info: &vk::InstanceCreateInfo<'_>) -> Result<ash::Instance, RuntimeError> {
    // SAFETY: the entry is loaded and every pointer of the info is alive in the caller.
    unsafe { entry.create_instance(info, None) }.map_err(|e| match e {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            RuntimeError::NoDriver { reason: "none could be loaded".into() }
        }
        vk::Result::ERROR_LAYER_NOT_PRESENT => RuntimeError::NoValidationLayer,
        e => failed("vkCreateInstance", "the instance", e).into(),
    })
}

type Messenger = (debug_utils::Instance, vk::DebugUtilsMessengerEXT);

fn create_validated(
    entry: &Entry,
    log: &ValidationLog,
) -> Result<(ash::Instance, Option<Messenger>), RuntimeError> {
    let layers: [*const c_char; 1] = [LAYER.as_ptr()];
    // SAFETY: the entry is loaded and the layer's name is a C string.
    let offered = unsafe { entry.enumerate_instance_extension_properties(Some(LAYER)) }
        .map_err(|_| RuntimeError::NoValidationLayer)?;
    let offers = |name: &CStr| offered.iter().any(|p| p.extension_name_as_c_str() == Ok(name));
    let mut extensions = vec![debug_utils::NAME.as_ptr()];
    // Synchronization checks are off by default; newer layers take settings, older ones a list of features.
    let on = vk::TRUE.to_ne_bytes();
    let settings = SETTINGS.map(|name| vk::LayerSettingEXT {
        p_layer_name: LAYER.as_ptr(),
        p_setting_name: name.as_ptr(),
        ty: vk::LayerSettingTypeEXT::BOOL32,
        value_count: 1,
        p_values: on.as_ptr().cast(),
        ..Default::default()
    });
    let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
    let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
    let takes_settings = offers(vk::EXT_LAYER_SETTINGS_NAME);
    let takes_features = !takes_settings && offers(vk::EXT_VALIDATION_FEATURES_NAME);
    if takes_settings {
        extensions.push(vk::EXT_LAYER_SETTINGS_NAME.as_ptr());
    } else if takes_features {
        extensions.push(vk::EXT_VALIDATION_FEATURES_NAME.as_ptr());
    }
    // Linked into the instance too, the messenger also hears what goes wrong while the instance is destroyed.
    let mut early = messenger_info(log);
    let mut info =
        app_info().enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(&mut early);
    if takes_settings {
        info = info.push_next(&mut settings);
    } else if takes_features {
        info = info.push_next(&mut features);
    }
    let raw = create(entry, &info)?;
    let debug = debug_utils::Instance::new(entry, &raw);
    // SAFETY: the instance enables the extension; the log that the callback gets outlives the messenger.
    match unsafe { debug.create_debug_utils_messenger(&messenger_info(log), None) } {
        Ok(messenger) => Ok((raw, Some((debug, messenger)))),
        Err(e) => {
            // SAFETY: nothing was made from the instance.
            unsafe { raw.destroy_instance(None) };
            Err(failed("vkCreateDebugUtilsMessengerEXT", "the instance", e).into())
        }
    }
}

fn messenger_info(log: &ValidationLog) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT {
        pfn_user_callback: Some(record_message),
        p_user_data: Arc::as_ptr(&log.0).cast_mut().cast(),
        ..Default::default()
    }
    .message_severity(
        vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
    )
    .message_type(
        vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
            | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE
            | vk::DebugUtilsMessageTypeFlagsEXT::GENERAL,
    )
}

/// # Safety
/// `data` is the layer's message and `log` the pointer that [`messenger_info`] took from a living log.
unsafe extern "system" fn record_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    log: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: by this function's contract; the layer's strings live during the call.
    unsafe {
        let log = &*log.cast_const().cast::<Mutex<Vec<String>>>();
        if let Some(data) = data.as_ref() {
            let text = |part: Option<&CStr>| part.unwrap_or_default().to_string_lossy().into_owned();
            let message =
                format!("{}: {}", text(data.message_id_name_as_c_str()), text(data.message_as_c_str()));
            lock(log).push(message);
        }
    }
    vk::FALSE
}

#[cfg(test)]
mod tests {
    use super::load;
    use crate::RuntimeError;

    #[test]
    fn a_missing_loader_says_what_to_install() {
        let Err(error) = load(Some("/nonexistent/libvulkan.so.1".as_ref())) else {
            panic!("there is no such file");
        };
        assert!(matches!(error, RuntimeError::NoLoader { .. }));
        assert!(error.to_string().contains("install it (libvulkan1"), "{error}");
    }
}

//! Vulkan is spoken in the runtime alone.

use crate::Fault;
use crate::source::{Source, Visitor, walk};

/// No path through `ash` outside `runtime/`, tests included in the runtime only.
pub fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("runtime/")) {
        walk(source, &mut Calls { path: &source.path, faults: &mut faults });
    }
    faults
}

struct Calls<'a> {
    path: &'a str,
    faults: &'a mut Vec<Fault>,
}

impl Visitor for Calls<'_> {
    fn path(&mut self, segments: &[String], _: usize, line: usize) {
        if segments[0] == "ash" {
            let what = format!("`{}` outside runtime; go through abi's Device", segments.join("::"));
            self.faults.push(Fault::new(self.path, line, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::planted;

    #[test]
    fn a_vulkan_call_outside_the_runtime_is_found() {
        for bad in
            ["use ash::vk;", "fn f() { ash::Entry::linked(); }", "fn f() { g!(ash::vk::Buffer::null()) }"]
        {
            assert_eq!(check(&planted("engine/src/a.rs", bad)).len(), 1, "{bad}");
            assert_eq!(check(&planted("runtime/src/a.rs", bad)), [], "{bad}");
        }
        assert_eq!(check(&planted("engine/src/a.rs", "use crate::ash_tray; fn f() { wash::vk() }")), []);
    }
}

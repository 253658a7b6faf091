//! What the words and their records carry: memory operands, decorations, places, access.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use kiln_abi::{
    Access, DType, Location, StagedKernel,
    spirv::{Decoration, MemoryOperands, MemorySemantics, Op},
};
use kiln_golden::{fixtures, sketch::Sketch};
use kiln_spirv_emit::{
    census::{Key, census},
    compile,
    words::{Instruction, decode},
};

fn kernel(name: &str) -> StagedKernel {
    fixtures::build(name).and_then(compile).unwrap_or_else(|e| panic!("{e}"))
}

/// Loads and stores, as (those with a non-private pointer, those without memory operands).
fn accesses(kernel: &StagedKernel) -> (usize, usize) {
    let decoded = decode(&kernel.words).unwrap();
    let operands = |i: &Instruction<'_>| match i.op {
        Op::Load => Some(i.parts.get(1).map_or(0, |p| p.words[0])),
        Op::Store => Some(i.parts.get(2).map_or(0, |p| p.words[0])),
        _ => None,
    };
    let masks: Vec<u32> = decoded.iter().filter_map(operands).collect();
    let count = |mask| masks.iter().filter(|&&m| m == mask).count();
    assert_eq!(count(MemoryOperands::NON_PRIVATE) + count(0), masks.len(), "no other operands");
    (count(MemoryOperands::NON_PRIVATE), count(0))
}

#[test]
fn shared_memory_is_accessed_as_non_private() {
    // One store before the loop; in it two loads and a store; one load at the end.
    assert_eq!(accesses(&kernel("workgroup_sum")).0, 5);
    // A buffer that is loaded from and stored to.
    assert_eq!(accesses(&kernel("read_write")).0, 2);
}

#[test]
fn what_nobody_else_writes_has_no_memory_operands() {
    for name in ["add", "loops", "locals", "q8_gemv"] {
        assert_eq!(accesses(&kernel(name)).0, 0, "{name}");
    }
}

#[test]
fn barriers_acquire_release_and_name_their_memory() {
    let keys = census(&kernel("workgroup_sum").words).unwrap();
    for bit in [
        MemorySemantics::ACQUIRE_RELEASE,
        MemorySemantics::MAKE_AVAILABLE,
        MemorySemantics::MAKE_VISIBLE,
        MemorySemantics::WORKGROUP_MEMORY,
    ] {
        assert!(keys.contains(&Key::Semantics(bit)), "{bit:#x}");
    }
    assert!(!keys.contains(&Key::Semantics(MemorySemantics::UNIFORM_MEMORY)));
}

fn decorated(kernel: &StagedKernel, binding: u32) -> Vec<&'static str> {
    let decoded = decode(&kernel.words).unwrap();
    let decorations = || decoded.iter().filter(|i| i.op == Op::Decorate);
    let variable = decorations()
        .find(|i| i.word(1) == Decoration::Binding.number() && i.word(2) == binding)
        .unwrap()
        .word(0);
    let names = decorations().filter(|i| i.word(0) == variable);
    names.map(|i| Decoration::from_number(i.word(1)).unwrap().name()).collect()
}

#[test]
fn buffers_are_decorated_by_their_derived_access() {
    let add = kernel("add");
    assert_eq!(decorated(&add, 0), ["DescriptorSet", "Binding", "Restrict", "NonWritable"]);
    assert_eq!(decorated(&add, 2), ["DescriptorSet", "Binding", "Restrict", "NonReadable"]);
    assert_eq!(decorated(&kernel("read_write"), 0), ["DescriptorSet", "Binding", "Restrict"]);
}

#[test]
fn layouts_say_what_a_launcher_needs() {
    let access = |name: &str| kernel(name).layout.bindings.iter().map(|b| b.access).collect::<Vec<_>>();
    assert_eq!(access("add"), [Access::Read, Access::Read, Access::Write]);
    assert_eq!(access("read_write"), [Access::ReadWrite]);
    let gemv = kernel("q8_gemv").layout;
    let w = &gemv.bindings[0];
    assert_eq!((w.name.as_str(), w.index, w.elem.as_str(), w.elem_bytes), ("w", 0, "Q8_0", 34));
    let push: Vec<_> = gemv.push.iter().map(|f| (f.name.as_str(), f.dtype, f.offset_bytes)).collect();
    assert_eq!(push, [("rows", DType::U32, 0), ("n_blocks", DType::U32, 4)]);
    assert_eq!((gemv.entry.as_str(), gemv.local_size, gemv.workgroup_bytes), ("main", [64, 1, 1], 0));
    assert_eq!(kernel("workgroup_sum").layout.workgroup_bytes, 256);
}

#[test]
fn an_access_is_what_it_is_declared_to_be_only_if_it_happens() {
    let mut k = Sketch::new("declared writable, only read");
    let (x, y) = (k.buf("x", DType::U32, true), k.buf("y", DType::U32, true));
    let i = k.gid();
    let v = k.get(x, i);
    k.set(y, i, v);
    let staged = k.compile().unwrap();
    let access: Vec<_> = staged.layout.bindings.iter().map(|b| b.access).collect();
    assert_eq!(access, [Access::Read, Access::Write]);
}

#[test]
fn floats_that_a_driver_could_fuse_are_marked() {
    let kernel = kernel("floats");
    let decoded = decode(&kernel.words).unwrap();
    let marked: Vec<u32> = decoded
        .iter()
        .filter(|i| i.op == Op::Decorate && i.word(1) == Decoration::NoContraction.number())
        .map(|i| i.word(0))
        .collect();
    for i in decoded.iter().filter(|i| i.result != 0) {
        let fusible = matches!(i.op, Op::FAdd | Op::FSub | Op::FMul);
        assert_eq!(marked.contains(&i.result), fusible, "{:?}", i.op);
    }
}

#[test]
fn every_instruction_of_the_kernel_has_its_place() {
    for (name, _) in fixtures::ALL {
        let kernel = kernel(name);
        assert!(kernel.source.entries.is_sorted_by(|a, b| a.0 < b.0), "{name}");
        let decoded = decode(&kernel.words).unwrap();
        let first = decoded.iter().position(|i| i.op == Op::Label).unwrap();
        for (before, i) in decoded[first..].iter().zip(&decoded[first + 1..]) {
            // What only frames a function is nobody's token.
            let opens = matches!(before.op, Op::Function | Op::FunctionParameter) && i.op == Op::Label;
            if opens || matches!(i.op, Op::Return | Op::FunctionEnd) {
                continue;
            }
            let place = kernel.source.at(u32::try_from(i.at).unwrap());
            let place = place.unwrap_or_else(|| panic!("{name}: {:?} at word {} has no place", i.op, i.at));
            assert!(place.file.contains("fixtures"), "{name}: {:?} is at {place}", i.op);
        }
        let starts: Vec<_> = decoded.iter().map(|i| u32::try_from(i.at).unwrap()).collect();
        assert!(kernel.source.entries.iter().all(|(at, _)| starts.binary_search(at).is_ok()), "{name}");
    }
}

#[test]
fn a_place_is_the_token_that_made_the_instruction() {
    let mut k = Sketch::new("placed");
    let y = k.buf("y", DType::U32, true);
    let i = k.gid();
    let (sum, line) = (k.op(Op::IAdd, DType::U32, &[i, i]), Location::caller().line);
    k.set(y, i, sum);
    let staged = k.compile().unwrap();
    let decoded = decode(&staged.words).unwrap();
    let add = decoded.iter().find(|i| i.op == Op::IAdd).unwrap();
    let place = staged.source.at(u32::try_from(add.at).unwrap()).unwrap();
    assert_eq!((place.file, place.line), (file!(), line));
}

#[test]
fn words_do_not_depend_on_where_the_source_stands() {
    let build = |k: &mut Sketch| {
        let y = k.buf("y", DType::U32, true);
        let i = k.gid();
        k.set(y, i, i);
    };
    let mut here = Sketch::new("k");
    build(&mut here);
    let mut there = Sketch::new("k");
    let y = there.buf("y", DType::U32, true);
    let i = there.gid();
    there.set(y, i, i);
    let (here, there) = (here.compile().unwrap(), there.compile().unwrap());
    assert_eq!(here.words, there.words);
    assert_ne!(here.source, there.source);
}

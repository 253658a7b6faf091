//! Functions as blocks, and the structured order in which their code is laid out.

use std::collections::{HashMap, HashSet};

use kiln_abi::spirv::Op;

use super::{
    error::{DecodeError, Decoded},
    reader::{Raw, Words},
};

/// A function's blocks as they stand in the module.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) result: u32,
    pub(crate) ty: u32,
    /// Id and type of each parameter.
    pub(crate) params: Vec<(u32, u32)>,
    pub(crate) blocks: Vec<Block>,
}

/// A basic block: instructions `first..last` of the module, the terminator included.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) label: u32,
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Merge block, and continue target of a loop.
    merge: Option<(u32, Option<u32>)>,
    /// First word of the loop's merge instruction.
    pub(crate) loop_word: Option<u32>,
    targets: Vec<u32>,
}

/// Splits the module's functions; `base` is the position of `bodies` among the module's instructions.
pub(crate) fn functions(words: &Words<'_>, bodies: &[Raw], base: usize) -> Decoded<HashMap<u32, Function>> {
    let mut all = HashMap::new();
    let mut open: Option<(u32, Function)> = None;
    let mut block: Option<Block> = None;
    for (i, raw) in bodies.iter().enumerate() {
        let malformed = |what| Err(DecodeError::Malformed { word: raw.word, what });
        let ops = words.operands(raw);
        match (raw.op, &mut open, &mut block) {
            (Op::Line, _, _) => {}
            (Op::Function, None, None) => {
                let f = Function { result: raw.ty, ty: ops[1], params: Vec::new(), blocks: Vec::new() };
                open = Some((raw.id, f));
            }
            (Op::FunctionParameter, Some((_, f)), None) if f.blocks.is_empty() => {
                f.params.push((raw.id, raw.ty));
            }
            (Op::Label, Some(_), None) => {
                let first = base + i + 1;
                let (merge, loop_word) = (None, None);
                block =
                    Some(Block { label: raw.id, first, last: first, merge, loop_word, targets: Vec::new() });
            }
            (Op::LoopMerge, Some(_), Some(b)) => {
                b.merge = Some((ops[0], Some(ops[1])));
                b.loop_word = Some(raw.word);
            }
            (Op::SelectionMerge, Some(_), Some(b)) => b.merge = Some((ops[0], None)),
            (
                Op::Branch | Op::BranchConditional | Op::Return | Op::ReturnValue | Op::Unreachable,
                Some((_, f)),
                Some(_),
            ) => {
                if let Some(mut done) = block.take() {
                    done.last = base + i + 1;
                    done.targets = match raw.op {
                        Op::Branch => ops.to_vec(),
                        Op::BranchConditional => ops[1..].to_vec(),
                        _ => Vec::new(),
                    };
                    f.blocks.push(done);
                }
            }
            (Op::FunctionEnd, Some(_), None) => {
                if let Some((id, f)) = open.take() {
                    all.insert(id, f);
                }
            }
            (_, Some(_), Some(_)) => {}
            _ => return malformed("an instruction stands where a function or block has to begin or end"),
        }
    }
    match (open, bodies.last()) {
        (Some(_), Some(last)) => {
            Err(DecodeError::Malformed { word: last.word, what: "the last function does not end" })
        }
        _ => Ok(all),
    }
}

/// The reachable blocks in structured order: a construct's blocks stand between its header and its merge block, a
/// loop's continue target behind its body.
///
/// It is the reverse post-order of a walk that takes the merge block first and the continue target second.
pub(crate) fn order(f: &Function, word: u32) -> Decoded<Vec<usize>> {
    let index: HashMap<u32, usize> = f.blocks.iter().enumerate().map(|(i, b)| (b.label, i)).collect();
    let children = |b: &Block| -> Decoded<Vec<usize>> {
        let merge = b.merge.iter().flat_map(|&(m, c)| [Some(m), c]).flatten();
        let labels = merge.chain(b.targets.iter().rev().copied());
        let find = |id: u32| {
            let missing = DecodeError::WrongId { word, id, expected: "a block of the function" };
            index.get(&id).copied().ok_or(missing)
        };
        labels.map(find).collect()
    };
    let Some(entry) = f.blocks.first() else {
        return Err(DecodeError::Malformed { word, what: "the function has no body" });
    };
    let mut seen = HashSet::from([0]);
    let mut stack = vec![(0, children(entry)?, 0)];
    let mut post = Vec::new();
    while let Some((block, next, at)) = stack.last_mut() {
        match next.get(*at).copied() {
            Some(child) => {
                *at += 1;
                if seen.insert(child) {
                    stack.push((child, children(&f.blocks[child])?, 0));
                }
            }
            None => {
                post.push(*block);
                stack.pop();
            }
        }
    }
    post.reverse();
    Ok(post)
}

//! What a file can make us allocate: opening one, good or hostile, keeps live allocation under 4 times its size and
//! 1 MiB. A binary of its own, since it counts every allocation of the process.

#[path = "gguf/file.rs"]
#[allow(dead_code, reason = "this test damages whole files, not marked fields")]
mod file;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use file::{Spec, Val, specimen, text, texts};
use kiln_engine::gguf::{Gguf, GgufError};
use kiln_engine::models;
use kiln_engine::tokenizer::Tokenizer;
use kiln_kernels::Registry;

/// The system's allocator, counting.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; the counters beside it touch no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may live for a moment.
        add(size);
        // SAFETY: as for `dealloc`; the caller promises that `size` is one that the layout allows.
        let moved = unsafe { System.realloc(at, layout, size) };
        LIVE.fetch_sub(layout.size(), Relaxed);
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was live at once during `work`, over what was live before it.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

const MIB: usize = 1 << 20;

fn allowed(file: usize) -> usize {
    4 * file + MIB
}

/// Walks and describes the file and builds its tokenizer; whether the reader took it, and whether it has a tokenizer.
fn load(file: Result<Gguf, GgufError>) -> (bool, bool) {
    let Ok(file) = file else { return (false, false) };
    let walked = file.metadata().iter().count() + file.tensors().map(|t| t.data.len()).sum::<usize>();
    let _ = models::describe(&file);
    (walked > 0, Tokenizer::from_gguf(&file).is_ok())
}

/// A file that is all of one thing, eight MiB or more, so that the one MiB hides nothing.
fn heavy(thing: &str) -> Vec<u8> {
    let llama = || {
        let count = |spec: Spec, key: &str, n| spec.key(&format!("llama.{key}"), Val::U32(n));
        let spec = Spec::new().key("general.architecture", text("llama"));
        let spec = [
            ("context_length", 64),
            ("embedding_length", 32),
            ("block_count", 100_000),
            ("feed_forward_length", 32),
        ]
        .into_iter()
        .fold(spec, |spec, (key, n)| count(spec, key, n));
        count(spec, "attention.head_count", 1).key("llama.attention.layer_norm_rms_epsilon", Val::F32(1e-5))
    };
    let tensors = || {
        let spec = llama().key("general.alignment", Val::U32(1));
        let spec = (0..260_000u32).fold(spec, |spec, i| spec.tensor(&short(i), &[1], 1, vec![0; 2]));
        Spec { alignment: 1, ..spec }
    };
    let vocabulary = |tokens, merges| {
        let spec =
            Spec::new().key("tokenizer.ggml.model", text("gpt2")).key("tokenizer.ggml.pre", text("gpt-2"));
        spec.key("tokenizer.ggml.tokens", tokens).key("tokenizer.ggml.merges", merges)
    };
    // Every token of two characters or more is its first character and the rest, which are tokens too.
    let merge = |i: u32| {
        let token = short(i);
        format!("{} {}", &token[..1], &token[1..])
    };
    // Just past 7/8 of 2^19, where a hash table has last doubled.
    let (n, few) = (460_000u32, || texts(["a b"]));
    let spec = match thing {
        "keys" => (0..600_000u32).fold(Spec::new(), |spec, i| spec.key(&short(i), Val::U8(0))),
        "tensors" => tensors(),
        "tokens" => vocabulary(texts((0..800_000).map(short)), few()),
        "tokens and merges" => vocabulary(texts((0..n).map(short)), texts((64..n).map(merge))),
        "merges" => vocabulary(texts(["a", "b", "ab"]), texts((0..1 << 20).map(|_| "a b"))),
        "equal tokens" => vocabulary(texts(vec!["a"; 1 << 20]), few()),
        "empty tokens" => vocabulary(texts(vec![""; 1 << 20]), few()),
        "bytes" => llama().key("llama.rope.freq_base", Val::Array(0, vec![Val::U8(1); 8 * MIB])),
        "long key" => Spec::new().key(&"k".repeat(8 * MIB), Val::U8(0)),
        "long text" => Spec::new().key("general.architecture", text(&"x".repeat(8 * MIB))),
        _ => unreachable!("{thing} is no thing that a file can be all of"),
    };
    spec.bytes()
}

/// What [`heavy`] makes files of, and whether such a file has a tokenizer.
const THINGS: [(&str, bool); 10] = [
    ("keys", false),
    ("tensors", false),
    ("tokens", true),
    ("tokens and merges", true),
    ("merges", true),
    ("equal tokens", false),
    ("empty tokens", false),
    ("bytes", false),
    ("long key", false),
    ("long text", false),
];

/// Distinct names of three or four characters.
fn short(i: u32) -> String {
    let digits = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    let mut name = String::new();
    let mut rest = i;
    loop {
        name.push(char::from(digits[(rest % 64) as usize]));
        rest /= 64;
        if rest == 0 {
            return name;
        }
    }
}

/// One test, so that nothing else allocates while it counts.
#[test]
fn live_allocation_is_bounded_by_the_file() {
    let registry = Registry::builtin();

    // The counter sees what it should: a vector's size, once while it lives, and both halves of a move.
    let counted = peak_of(|| drop(std::hint::black_box(vec![0u8; 3 * MIB])));
    assert_eq!(counted, 3 * MIB);
    let grown = peak_of(|| {
        let mut v = std::hint::black_box(vec![0u8; 2 * MIB]);
        v.reserve_exact(MIB);
        drop(std::hint::black_box(v));
    });
    assert_eq!(grown, 5 * MIB);

    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}.gguf", std::process::id()));
    for (name, has_tokenizer) in THINGS {
        let mut bytes = heavy(name);
        let n = bytes.len();
        assert!(n >= 8 * MIB, "{name}: {n}");
        std::fs::write(&path, &bytes).unwrap();
        let mut opened = (false, false);
        let mapped = peak_of(|| opened = load(Gguf::open(&path, &registry)));
        println!("{name}: {n} bytes, {:.2} times that live", mapped as f64 / n as f64);
        assert_eq!(opened, (true, has_tokenizer), "{name}");
        assert!(mapped <= allowed(n), "{name}: {mapped} bytes live for a file of {n}");

        // With bytes in the middle that are none of what they should be, and then cut too: no more than the good file.
        bytes[n / 2..n / 2 + 8].fill(0xff);
        for len in [n, n / 2 + 9] {
            let read = || drop(Gguf::from_bytes(bytes[..len].to_vec(), &registry));
            let peak = peak_of(read);
            assert!(peak <= allowed(len), "{name}, damaged: {peak} bytes live for a file of {len}");
        }
    }
    std::fs::remove_file(&path).unwrap();

    // Any field of a small file can be a size; none is believed.
    let whole = specimen().bytes();
    for at in 0..whole.len() {
        for size in [1u64 << 24, 1 << 31, 1 << 40, u64::MAX] {
            let mut bytes = whole.clone();
            for (byte, new) in bytes[at..].iter_mut().zip(size.to_le_bytes()) {
                *byte = new;
            }
            let peak = peak_of(|| _ = load(Gguf::from_bytes(bytes.clone(), &registry)));
            assert!(peak <= allowed(bytes.len()), "{size} at byte {at}: {peak} bytes live");
        }
    }
}

//! `cargo xtask new-format NAME`: the file of a quantization format to fill in, and its rows.

use std::fs;
use std::path::Path;

use crate::names;
use crate::process::Result;

const FOLDER: &str = "kernels/src/formats";
const MODULES: &str = "kernels/src/formats/mod.rs";
const REGISTRY: &str = "kernels/src/registry.rs";

/// The type's name, as its siblings have theirs: `q3_x` is `Q3X`, and `q6_0`, where digits would meet, `Q6_0`.
fn type_name(name: &str) -> String {
    name.split('_').filter(|part| !part.is_empty()).fold(String::new(), |mut ty, part| {
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if digit(ty.chars().last()) && digit(part.chars().next()) {
            ty.push('_');
        }
        ty + &part[..1].to_uppercase() + &part[1..]
    })
}

/// Writes the format's file and its rows; refuses a name that is taken or is no name of a module.
///
/// A format is named as ggml does (`Q6_0`), its module in small letters.
pub(crate) fn new_format(name: &str) -> Result<()> {
    let lower = name.to_ascii_lowercase();
    let name = lower.as_str();
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_name {
        return Err(format!(
            "`{name}` is no format's name: a letter, then letters, digits and `_`, such as Q6_0"
        ));
    }
    let root = names::root()?;
    let [modules, registry] = [MODULES, REGISTRY].map(|path| read(&root.join(path)));
    let (modules, registry) = (modules?, registry?);
    check_name(&root, &modules, &registry, name)?;
    let (modules, registry) = rows(&modules, &registry, name)?;
    let path = format!("{FOLDER}/{name}.rs");
    write(&root.join(&path), &skeleton(name))?;
    write(&root.join(MODULES), &modules)?;
    write(&root.join(REGISTRY), &registry)?;
    crate::cargo::run(&["fmt", "-p", "kiln-kernels"], &[])?;
    println!("{path} is a format of 32 signed bytes under an f16 scale: make it yours, then its vectors.");
    println!(
        "Each `FILL IN` says what; `cargo xtask test -p kiln-kernels` what is missing; CONTRIBUTING.md has the steps."
    );
    Ok(())
}

/// Whether both the module and the type of a format are free.
fn check_name(root: &Path, modules: &str, registry: &str, name: &str) -> Result<()> {
    names::check_module(name)?;
    names::check_free(&root.join(FOLDER), FOLDER, name)?;
    let ty = type_name(name);
    // Under another name: what the new file itself has is what it writes for any format.
    let file = skeleton("another");
    for (text, shown) in [(modules, MODULES), (registry, REGISTRY), (&*file, "a format's file")] {
        names::check_unused(&ty, text, shown)?;
    }
    Ok(())
}

/// Both files with the format named in them; rustfmt puts the lines in their order.
fn rows(modules: &str, registry: &str, name: &str) -> Result<(String, String)> {
    let ty = type_name(name);
    let modules = after(modules, "pub mod layout;\n", &format!("mod {name};\n"))?;
    let modules = after(&modules, "pub use self::{\n", &format!("    {name}::{ty},\n"))?;
    let registry = after(registry, "    formats::{\n", &format!("        {ty},\n"))?;
    let registry = before(&registry, "];\n\n/// Formats by id", &format!("    {ty},\n"))?;
    Ok((modules, registry))
}

fn after(text: &str, mark: &str, new: &str) -> Result<String> {
    let (head, tail) = text.split_once(mark).ok_or_else(|| missing(mark))?;
    Ok([head, mark, new, tail].concat())
}

fn before(text: &str, mark: &str, new: &str) -> Result<String> {
    let (head, tail) = text.split_once(mark).ok_or_else(|| missing(mark))?;
    Ok([head, new, mark, tail].concat())
}

fn missing(mark: &str) -> String {
    format!("the rows of formats have no line `{}`; name the format by hand", mark.trim())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn skeleton(name: &str) -> String {
    let (ty, upper) = (type_name(name), name.to_uppercase());
    format!(
        "\
//! {upper}: 32 weights with one scale. FILL IN: bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs, signed bytes |
//!
//! Value: `d · q`. FILL IN: the outside reference.

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{{Arms, Format, HostFormat, f16_at, half_bits}};

/// The format.
pub struct {ty};

// FILL IN: where a block's fields begin.
const QS: usize = 2;
const _: () = assert!(QS + 32 == {ty}::GEOMETRY.bytes() as usize);

impl HostFormat for {ty} {{
    // FILL IN: ggml's type id; for a format of one's own a number from 0x7e57_0100 to 0x7e57_ffff.
    const ID: u32 = 0x7fff_ffff;
    const NAME: &'static str = \"{upper}\";
    // FILL IN: elements and bytes of a block.
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 34);

    // FILL IN: the formula in plain Rust, written apart from the kernels' functions below.
    fn dequantize(block: &[u8], out: &mut [f32]) {{
        for (out, q) in out.iter_mut().zip(&block[QS..]) {{
            *out = f16_at(block, 0) * f32::from(q.cast_signed());
        }}
    }}
}}

impl Format for {ty} {{
    // FILL IN: this, where kernels would work longer on the file's code than it takes to read; else delete it. `code`
    // makes another of a block, of so many bytes, at most a twentieth larger, and `source` then speaks of its bits;
    // `restore` is the inverse, which tests hold `code` against (`tq1_0.rs`).
    // const RECODING: Option<super::layout::Recoding> = Some(super::layout::Recoding {{ bytes: 34, code, restore }});

    // FILL IN: `plain` where an element is not `scale * q + offset` with a signed 8-bit q; then drop `PackedFormat`.
    fn arms() -> Arms {{
        Arms::packed::<Self>()
    }}

    // FILL IN: the bit of a block that is bit `bit` of plane `plane`; `layout` has the usual orders (nibbles, pairs of
    // bits, halves), `q5_0.rs` and `q6_k.rs` use them. `offset` beside it, where elements have
    // one: what `scale_offset` below gives.
    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {{
        match plane {{
            0 => Some(8 * QS + bit),
            1 => Some(bit),
            _ => None,
        }}
    }}
}}

#[device]
impl TensorFormat for {ty} {{
    // FILL IN: elements of a block, as in `GEOMETRY`, a power of two.
    const BLK: u32 = 32;
    // FILL IN: elements that an invocation takes at once, a power of two: 32 or 64 of a packed format, else as many as a
    // load of 16 bytes brings, 4 at least.
    const UNIT: u32 = 32;
    // FILL IN: the bytes of a unit in each plane, the widest first; fields of a whole block are `Plane::block`.
    const PLANES: &'static [Plane] = &[Plane::unit(32), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {{
        packed_decode4::<{ty}>(&u, at)
    }}
}}

#[device]
impl PackedFormat for {ty} {{
    // FILL IN: elements that share a scale, 16 or 32; whether they have an offset, which `scale_offset` then gives
    // (and `CENTER` beside them, where it is the same number of scales everywhere).
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {{
        let d = half_bits(u.sixteen(1));
        (d, 0.0)
    }}

    // FILL IN: elements `4 * pack` to `4 * pack + 3`, a signed byte each. What is subtracted from every q goes into the
    // offset, which costs one product for a group: unsigned q below 128 may stay as they are.
    fn lanes(u: &Unit, pack: u32) -> u32 {{
        u.word(0, pack)
    }}
}}

#[cfg(test)]
mod tests {{
    #[test]
    fn it_is_filled_in() {{
        let left = include_str!(\"{name}.rs\").lines().filter(|l| l.contains(concat!(\"FILL\", \" IN\"))).count();
        assert_eq!(left, 0, \"kernels/src/formats/{name}.rs has {{left}} lines with `FILL IN`: do what each says and delete it, then this test\");
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_where_the_others_are() {
        assert_eq!(["q3_x", "q6_0", "iq4_nl", "tq1_0_x"].map(type_name), ["Q3X", "Q6_0", "Iq4Nl", "Tq1_0X"]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let (modules, registry) = rows(&read(MODULES), &read(REGISTRY), "q3_x").unwrap();
        assert!(modules.contains("mod q3_x;") && modules.contains("q3_x::Q3X,"));
        assert!(registry.contains("    Q3X,\n];\n"));
        assert!(rows("", &registry, "q3_x").is_err());
        assert!(skeleton("q3_x").starts_with("//! Q3_X: "));
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let check = |modules: &str, name: &str| check_name(&root, modules, &read(REGISTRY), name);
        let modules = read(MODULES);
        // Words of Rust, files and folders, types that the file and the registry use.
        for taken in ["self", "type", "struct", "where", "q4_0", "grids", "layout"] {
            assert!(check(&modules, taken).is_err(), "{taken}");
        }
        for (taken, ty) in [("unit", "Unit"), ("vec4", "Vec4"), ("format", "Format"), ("tile", "Tile")] {
            let said = check(&modules, taken).unwrap_err();
            assert!(said.contains(&format!("has another `{ty}`")), "{said}");
        }
        assert_eq!(check(&modules, "zk3"), Ok(()));
        // `ZK_3` and `ZK3` are two modules and one type.
        let (with, _) = rows(&modules, &read(REGISTRY), "zk3").unwrap();
        assert!(check(&with, "zk_3").unwrap_err().contains("has another `Zk3`"));
    }
}

//! What the language refuses, one row per kind of construct, and the fixtures that show it: every row has one, and
//! every fixture asserts its message at its line and column beside a twin that is accepted.

use std::path::Path;

use crate::kernels::staged;

/// Kind of construct, files of `ui/` and kernels of this suite. Rows of other shading languages that cannot be written
/// here at all (matrix columns, stages beside compute, binding numbers) show what is written in their stead.
const ROWS: &[(&str, &[&str])] = &[
    ("a host function called", &["host_function_called", "boxed_value", "host_function"]),
    ("module state", &["static_value", "static_item"]),
    (
        "64-bit numbers",
        &["wide_integer", "wide_float", "host_wide_integer", "device_returns_wide", "cast_to_wide_integer"],
    ),
    (
        "strings and printing",
        &["string_literal", "host_string", "unknown_macro", "macro_statement", "character_literal"],
    ),
    ("assertions and collections", &["assert_macro", "vec_macro", "boxed_value"]),
    ("errors and options", &["question_mark", "if_let", "while_let", "let_else", "let_chain"]),
    ("closures and functions as values", &["closure", "call_of_value", "function_item"]),
    ("pointers", &["pointer_cast", "dereference", "mutable_reference", "cast_to_reference"]),
    ("unsafe and async code", &["unsafe_block", "async_block", "await_expression", "const_block"]),
    ("items in a body", &["type_item", "struct_item", "static_item", "function_item"]),
    ("structs made and taken apart", &["struct_pattern", "mutable_in_tuple"]),
    (
        "labels and values of loops",
        &["loop_label", "block_label", "break_label", "continue_label", "break_value"],
    ),
    ("slices and ranges", &["slice", "range_value", "inclusive_range", "open_range", "reversed_range"]),
    ("statements after a terminator", &["Unreachable", "AfterLoop"]),
    (
        "a write to what is no place",
        &["swizzle_target", "assign_to_let", "compound_on_let", "mutable_loop_variable"],
    ),
    ("workgroup memory of other than plain elements", &["shared_of_tuple", "shared_of_bool"]),
    ("buffers of other than plain elements", &["buffer_of_buffers", "buffer_of_bool", "block_nested_array"]),
    ("recursion and its depth", &["Recursion", "MutualRecursion"]),
    (
        "blocks in blocks",
        &["block_in_block", "block_bool", "block_wide_integer", "block_enum", "block_tuple"],
    ),
    ("constants chosen at specialization", &["parameter_attribute", "kernel_unknown_option"]),
    (
        "narrow push constants",
        &["push_half", "push_byte", "push_wide_integer", "push_array", "push_too_large"],
    ),
    ("vectors of other than 2 to 4 lanes", &["vector_of_eight"]),
    ("a kernel on what is no free function", &["kernel_method", "kernel_on_struct", "kernel_lifetime"]),
    (
        "parameters without a role",
        &["kernel_value_parameter", "shared_in_launch_arguments", "kernel_without_buffer"],
    ),
    (
        "methods of a format",
        &["format_without_decode", "decode_wide_index", "decode_result_type", "decode4_result_type"],
    ),
    ("blocks of another format", &["block_of_other_format", "argument_of_other_format", "not_a_format"]),
    ("unrolled loops", &["unroll_to_a_value", "break_in_comptime_loop", "continue_in_comptime_loop"]),
    ("loop forms", &["loop_over_iterator", "loop_pattern", "loop_attribute", "break_outside_loop"]),
    ("steps of zero or less", &["Steps"]),
    ("missing values", &["uninitialized_let", "if_without_else", "missing_argument", "index_of_scalar"]),
    ("paths that return", &["early_return", "return_value", "kernel_returns", "device_returns_reference"]),
    ("a buffer never touched", &["Unused"]),
    (
        "a write to what is read",
        &["write_to_read_only", "add_to_read_only", "weight_written", "weight_stored_to"],
    ),
    (
        "grids and push structs",
        &["kernel_without_grid", "grid_of_four", "grid_operator", "kernel_two_pushes"],
    ),
    ("a push constant's struct", &["push_tuple", "push_without_derive", "push_field_unknown"]),
    ("lengths and contracts", &["len_on_push", "len_of_float", "Lengths"]),
    ("numbers out of range", &["Literals", "huge_integer", "huge_float", "negated_unsigned"]),
    ("indices out of range", &["Indices"]),
    (
        "indices of another type",
        &["signed_into_unsigned", "usize_index", "unsuffixed_float_index", "index_by_signed"],
    ),
    ("mixed types", &["mixed_addition", "mixed_comparison", "mixed_store", "mixed_arms", "store_of_half"]),
    ("a value of the device known to the host", &["comptime_from_value", "mutable_comptime", "HostJump"]),
    ("a value outside its block", &["Escape"]),
    ("a value captured where none can be", &["Captured"]),
    ("named dimensions", &["dimension_undeclared", "Dimensions", "Renamed"]),
    ("fragments of another shape or subgroup", &["Fragments", "NarrowFragments"]),
    ("arithmetic without a result", &["Arithmetic", "Sizes"]),
    ("a barrier that some invocations miss", &["BarrierInBranch", "BarrierAfterReturn", "BarrierInLoop"]),
    ("a subgroup operation that some lanes miss", &["SubgroupInBranch"]),
    ("clusters of other than a power of two", &["Clusters"]),
    (
        "memory reused for more than there is, in narrower elements, or read afterwards",
        &["Reuses", "Overlays", "shared_after_reuse"],
    ),
    (
        "choices that take nothing, twice or not all",
        &["match_open", "match_twice", "match_empty_range", "match_after_wildcard"],
    ),
    (
        "patterns of a match",
        &["match_pattern", "match_binding", "match_guard", "match_of_float", "match_types"],
    ),
    (
        "struct values",
        &[
            "struct_without_derive",
            "struct_missing_field",
            "struct_field_type",
            "struct_rest",
            "struct_added",
        ],
    ),
    (
        "atomics on what has none",
        &["atomic_of_float", "atomic_narrow", "atomic_on_variable", "atomic_on_read_only", "atomic_of_value"],
    ),
    ("lines to print", &["print_too_few", "print_too_many", "print_format", "print_vector"]),
    ("more than every device has", &["ManyInvocations", "MuchMemory"]),
    ("a buffer that a variant lacks", &["Absent", "when_on_push", "when_of_value"]),
    ("a view of what is written", &["view_of_written"]),
    (
        "a plane or a word of one that a format lacks, or that no load can step through",
        &["Planes", "PlaneWords", "FirstPlane"],
    ),
    ("a capability beyond the arm", &["BeyondTheArm", "requires_unknown"]),
];

#[test]
fn every_row_has_its_fixtures() {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let staged: Vec<&str> = staged().iter().map(|s| s.0).collect();
    let shown = |name: &str| ui.join(format!("{name}.stderr")).exists() || staged.contains(&name);
    for (row, fixtures) in ROWS {
        let missing: Vec<_> = fixtures.iter().filter(|name| !shown(name)).collect();
        assert!(!fixtures.is_empty() && missing.is_empty(), "{row}: {missing:?}");
    }
    let kernels_without_row: Vec<_> =
        staged.iter().filter(|name| !ROWS.iter().any(|(_, fixtures)| fixtures.contains(name))).collect();
    assert!(kernels_without_row.is_empty(), "{kernels_without_row:?}");
    assert!(!shown("no_such_fixture"));
}

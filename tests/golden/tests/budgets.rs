//! Every kernel keeps its static budget, and a semantic difference tells what moved from what changed.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use kiln_golden::{
    budget::{BudgetError, budgets, check, is_meant, row_of},
    costs::{Costs, NAMES},
    diff::{Change, compare},
    fixtures, kernels,
    report::Report,
};

fn costs() -> Vec<(String, [u64; 8])> {
    let staged = kernels::stage_all().unwrap_or_else(|e| panic!("{e}"));
    staged.iter().map(|k| (k.name.clone(), Costs::of(&k.words).unwrap().all().map(u64::from))).collect()
}

#[test]
fn every_kernel_keeps_its_budget() {
    let rows =
        budgets("tests/golden/budgets.txt", include_str!("../budgets.txt")).unwrap_or_else(|e| panic!("{e}"));
    let errors = check(NAMES, &rows, &costs());
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.is_empty(), "\n{}", text.join("\n"));
}

#[test]
fn a_kernel_over_its_row_and_a_loose_row_are_told() {
    let rows = budgets("b.txt", "# a comment\n9 9 9 9 9 9 9 9 add\n900 90 9 9 9 9 9 9 default\n").unwrap();
    let cost = |words| [words, 5, 5, 5, 5, 0, 0, 0];
    let over = check(NAMES, &rows, &[("add(n: 4)".to_owned(), cost(10)), ("mul".to_owned(), cost(900))]);
    let told = |e: &BudgetError| matches!(e, BudgetError::Over { cost: "words", found: 10, .. });
    assert!(over.iter().any(told), "{over:?}");
    assert!(over.iter().any(|e| matches!(e, BudgetError::Loose { cost: "barriers", .. })), "{over:?}");
    assert!(!over.iter().any(|e| matches!(e, BudgetError::Over { row, .. } if row == "default")));
    assert!(matches!(budgets::<8>("b.txt", "1 2 3 add"), Err(BudgetError::Line { .. })));
    assert!(matches!(check(NAMES, &[], &[("add".to_owned(), cost(1))])[..], [BudgetError::NoRow { .. }]));
}

#[test]
fn a_row_for_no_kernel_is_told_by_its_name() {
    let rows = budgets("b.txt", "9 9 9 9 9 9 9 9 add<Q3_W>\n9 9 9 9 9 9 9 9 mul\n9 9 9 9 9 9 9 9 default\n")
        .unwrap();
    let costs = [("add<Q3W>(n: 4)".to_owned(), [9; 8])];
    let told: Vec<_> = check(NAMES, &rows, &costs).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the row `add<Q3_W>` (b.txt:1) limits nothing: no kernel has this name, and one is `add<Q3W>`; correct or \
             drop it",
            "the row `mul` (b.txt:2) limits nothing: no kernel has this name; correct or drop it",
        ]
    );
}

#[test]
fn a_kernel_is_meant_by_its_formats_name_as_files_write_it() {
    for by in ["gemv<Q4_K>", "gemv<q4_k>", "gemv<Q4K>", "gemv<Q4", "gemv"] {
        assert!(is_meant("gemv<Q4K>", by), "{by}");
    }
    for by in ["gemv<Q4_0>", "gemv_dot4<Q4_K>", "gemv_", "Q4_K"] {
        assert!(!is_meant("gemv<Q4K>", by), "{by}");
    }
}

/// A costly format has a row of its own, and the others keep the one of their kernel.
#[test]
fn a_row_of_one_format_is_for_its_kernel_alone() {
    let text = "9 9 9 9 9 9 9 9 add\n\n20 9 9 9 9 9 9 9 add<Q3W>\n";
    let rows = budgets("b.txt", text).unwrap();
    let names = ["add<Q3W>(n: 4)", "add<Q3W>", "add<Q3>(n: 4)", "add(n: 4)", "add<Q3W, F32>"];
    let of = names.map(|name| row_of(&rows, name).map(|row| row.place.as_str()));
    assert_eq!(of, ["b.txt:3", "b.txt:3", "b.txt:1", "b.txt:1", "b.txt:1"].map(Some));
    let told = |rows: &[_], words| {
        let costs = [("add".to_owned(), [9; 8]), ("add<Q3W>(n: 4)".to_owned(), [words, 9, 9, 9, 9, 9, 9, 9])];
        check(NAMES, rows, &costs).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(&rows, 20), [""; 0]);
    let own = "add<Q3W>(n: 4): expected at most 20 words; found 21; cost less, or raise the row `add<Q3W>` (b.txt:3) in \
               this change";
    assert_eq!(told(&rows, 21), [own]);
    let shared = "add<Q3W>(n: 4): expected at most 9 words; found 20; cost less, or in this change raise the row `add` \
                  (b.txt:1), which is for all formats, or add a row `add<Q3W>` beside it";
    assert_eq!(told(&rows[..1], 20), [shared]);
    let [loose] = &told(&rows, 9)[..] else { panic!("{:?}", told(&rows, 9)) };
    assert!(loose.starts_with("the row `add<Q3W>` (b.txt:3) is loose: "), "{loose}");
}

#[test]
fn loops_and_buffers_are_counted() {
    let all = fixtures::compile_all().unwrap();
    let costs = |name: &str| Costs::of(&all.iter().find(|k| k.name == name).unwrap().words).unwrap();
    let sum = costs("workgroup_sum");
    assert_eq!((sum.loads, sum.stores, sum.barriers), (1, 1, 1), "{sum}");
    assert!(sum.looped > 5 && sum.looped < sum.instructions, "{sum}");
    let add = costs("add");
    assert_eq!((add.loads, add.stores, add.looped, add.barriers), (2, 1, 0, 0), "{add}");
}

/// The kernel with an unused id in front, which moves every number.
fn renumbered(words: &[u32]) -> Vec<u32> {
    let mut out = words[..5].to_vec();
    out[3] += 1;
    let moved = kiln_spirv_emit::words::decode(words).unwrap();
    for i in moved {
        let mut at = out.len();
        out.push(words[i.at]);
        for n in [i.ty, i.result] {
            if n != 0 {
                out.push(n + 1);
            }
        }
        for part in &i.parts {
            use kiln_abi::spirv::OperandKind::{Id, Ids, Scope, Semantics};
            let is_id = matches!(part.kind, Id | Ids | Scope | Semantics);
            out.extend(part.words.iter().map(|w| w + u32::from(is_id)));
        }
        at = out.len() - at;
        assert_eq!(at, (words[i.at] >> 16) as usize);
    }
    out
}

#[test]
fn a_difference_is_told_by_meaning() {
    let all = fixtures::compile_all().unwrap();
    let find = |name: &str| &all.iter().find(|k| k.name == name).unwrap().words;
    let add = find("add");
    assert_eq!(compare(add, add).unwrap(), Change::Same);
    assert_eq!(compare(add, &renumbered(add)).unwrap(), Change::Renumbered);
    let mut other = add.clone();
    let sum = kiln_spirv_emit::words::decode(add).unwrap();
    let sum = sum.iter().find(|i| i.op == kiln_abi::spirv::Op::FAdd).unwrap().at;
    other[sum] = other[sum] & 0xffff_0000 | u32::from(kiln_abi::spirv::Op::FSub.number());
    let Change::Changed(details) = compare(add, &other).unwrap() else { panic!("a product is no sum") };
    assert_eq!(details.uses, ["+ op FSub", "- op FAdd"]);
    assert!(details.costs.is_empty(), "{details:?}");
    assert!(details.lines.iter().any(|l| l.starts_with("- ") && l.contains("FAdd")), "{details:?}");
    let Change::Changed(details) = compare(add, find("workgroup_sum")).unwrap() else { panic!() };
    assert!(details.costs.iter().any(|c| c == "barriers 0 -> 1"), "{details:?}");
}

#[test]
fn alike_changes_are_shown_once() {
    let all = fixtures::compile_all().unwrap();
    let find = |name: &str| &all.iter().find(|k| k.name == name).unwrap().words;
    let (add, sum) = (find("add"), find("workgroup_sum"));
    let named = |name: &str, new| (name.to_owned(), compare(add, new).unwrap());
    let changed = vec![
        named("one(n: 1)", sum),
        named("one(n: 2)", sum),
        named("one(n: 3)", &renumbered(add)),
        named("two<A>", sum),
    ];
    let new = vec!["three<A>".to_owned(), "three<B>".to_owned()];
    let mut report = Report { same: 7, changed, new, ..Report::default() };
    let text = report.to_string();
    assert_eq!(text.matches("+ op ControlBarrier").count(), 2, "{text}");
    for part in [
        "one(n: 1): ",
        "    and 1 like it, such as one(n: 2)",
        "one(n: 3): the same instructions under other ids",
        "lines; give the kernel's name to see them",
        "three: 2 new",
        "7 kernels have the same words, 4 have others, 2 are new, 0 gone",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    report.whole = true;
    let text = report.to_string();
    assert_eq!(text.matches("+ op ControlBarrier").count(), 3, "{text}");
    assert!(!text.contains("like it") && !text.contains("to see them"), "{text}");
}

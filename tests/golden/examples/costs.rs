//! Static costs of every registered kernel, largest of each kernel's variants, in the form of `budgets.txt`.

use std::collections::BTreeMap;

use kiln_golden::{costs::Costs, kernels};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut most: BTreeMap<String, [u32; 8]> = BTreeMap::new();
    for kernel in kernels::stage_all()? {
        let name = kernel.name.split(['<', '(']).next().unwrap_or_default().to_owned();
        let costs = Costs::of(&kernel.words)?.all();
        let row = most.entry(name).or_default();
        row.iter_mut().zip(costs).for_each(|(most, found)| *most = found.max(*most));
    }
    for (name, costs) in most {
        let numbers = costs.map(|n| format!("{n:5}"));
        println!("{} {name}", numbers.join(" "));
    }
    Ok(())
}

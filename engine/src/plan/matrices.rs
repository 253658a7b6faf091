//! Cooperative products in a caps file.

use kiln_abi::{FlexibleProduct, MatrixCaps, MatrixElem, MatrixProduct, spirv::Scope};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapsRow {
    fixed: Vec<ProductRow>,
    flexible: Vec<FlexibleRow>,
    max_dimension: u32,
    reserved_workgroup_bytes: u32,
    /// Files from before fragments have none.
    #[serde(default)]
    fragments: bool,
}

/// Scope and elements by the names that kernels give them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProductRow {
    scope: String,
    mnk: [u32; 3],
    elems: [String; 4],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlexibleRow {
    granularity: ProductRow,
    invocations: u32,
}

const SCOPES: [Scope; 2] = [Scope::Subgroup, Scope::Workgroup];
const ELEMS: [MatrixElem; 7] = [
    MatrixElem::F16,
    MatrixElem::BF16,
    MatrixElem::F32,
    MatrixElem::I8,
    MatrixElem::U8,
    MatrixElem::I32,
    MatrixElem::U32,
];

impl ProductRow {
    fn of(product: &MatrixProduct) -> Self {
        let MatrixProduct { scope, mnk, elems } = *product;
        Self { scope: scope.name().to_owned(), mnk, elems: elems.map(|elem| elem.name().to_owned()) }
    }

    fn product(&self) -> Result<MatrixProduct, String> {
        let scope = SCOPES.into_iter().find(|scope| scope.name() == self.scope);
        let scope = scope.ok_or_else(|| format!("unknown scope {:?}", self.scope))?;
        let mut elems = [MatrixElem::F32; 4];
        for (elem, name) in elems.iter_mut().zip(&self.elems) {
            let found = ELEMS.into_iter().find(|elem| elem.name() == name);
            *elem = found.ok_or_else(|| format!("unknown matrix element {name:?}"))?;
        }
        Ok(MatrixProduct { scope, mnk: self.mnk, elems })
    }
}

pub(super) fn serialize<S: Serializer>(caps: &MatrixCaps, out: S) -> Result<S::Ok, S::Error> {
    let flexible = |f: &FlexibleProduct| FlexibleRow {
        granularity: ProductRow::of(&f.granularity),
        invocations: f.invocations,
    };
    let row = CapsRow {
        fixed: caps.fixed.iter().map(ProductRow::of).collect(),
        flexible: caps.flexible.iter().map(flexible).collect(),
        max_dimension: caps.max_dimension,
        reserved_workgroup_bytes: caps.reserved_workgroup_bytes,
        fragments: caps.fragments,
    };
    row.serialize(out)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<MatrixCaps, D::Error> {
    let row = CapsRow::deserialize(input)?;
    let fixed = row.fixed.iter().map(ProductRow::product).collect::<Result<_, _>>();
    let flexible = |f: &FlexibleRow| {
        f.granularity.product().map(|granularity| FlexibleProduct { granularity, invocations: f.invocations })
    };
    let flexible = row.flexible.iter().map(flexible).collect::<Result<_, _>>();
    Ok(MatrixCaps {
        fixed: fixed.map_err(D::Error::custom)?,
        flexible: flexible.map_err(D::Error::custom)?,
        max_dimension: row.max_dimension,
        reserved_workgroup_bytes: row.reserved_workgroup_bytes,
        fragments: row.fragments,
    })
}

#[cfg(test)]
mod tests {
    use kiln_abi::MatrixCaps;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct File(#[serde(with = "super")] MatrixCaps);

    #[test]
    fn products_survive_the_file_and_unknown_names_do_not() {
        let every = MatrixCaps { fragments: true, ..MatrixCaps::every() };
        let text = serde_json::to_string(&File(every.clone())).unwrap();
        let File(found) = serde_json::from_str(&text).unwrap();
        assert_eq!(found, every);
        let File(older) = serde_json::from_str(&text.replacen(",\"fragments\":true", "", 1)).unwrap();
        assert_eq!(older, MatrixCaps { fragments: false, ..every });
        let odd = serde_json::from_str::<File>(&text.replacen("\"f16\"", "\"f17\"", 1));
        assert!(odd.is_err_and(|why| why.to_string().contains("f17")));
    }
}

//! That the text of a case reads back as that case: what a report shows is what ran.

use crate::case::Case;
use std::collections::BTreeMap;
use tile_dsl::tile::{Expr, ExprKind, Kernel, Stmt, VarId, expressions_mut, statements};

/// Nothing if the text of a case reads back as the case; else what is wrong.
pub fn reads_back(case: &Case) -> Result<(), String> {
    let text = case.to_string();
    let read = Case::parse(&text).map_err(|e| e.to_string())?;
    if read.to_string() != text {
        return Err("the text of the case reads back as another text".into());
    }
    // Not by `==`: no number is equal to one that is none.
    let [read, own] = [&read.kernel, &case.kernel].map(|kernel| format!("{:?}", in_order(kernel)));
    match read == own {
        true => Ok(()),
        false => Err("the text of the case reads back as another case".into()),
    }
}

/// The kernel with its variables in the order in which they are bound, and called as in its text.
fn in_order(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.named_apart().into_owned();
    let mut order: BTreeMap<VarId, VarId> = BTreeMap::new();
    let mut vars = Vec::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Let { var, .. } = stmt {
            order.insert(*var, VarId(vars.len() as u16));
            vars.push(kernel.vars[usize::from(var.0)].clone());
        }
    });
    let place = |var: &mut VarId| *var = order.get(var).copied().unwrap_or(*var);
    for stmt in &mut kernel.body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Let { var, .. } | Stmt::Assign { var, .. } = stmt {
                place(var);
            }
        });
    }
    expressions_mut(&mut kernel.body, &mut |expr: &mut Expr| {
        if let ExprKind::Var(var) = &mut expr.kind {
            place(var);
        }
        true
    });
    Kernel { vars, ..kernel }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
kernel k(x: &[f32; N], y: &mut [f32; N]) {
    axis i in program_tile(N);
    let v0 = load(x, [i]) * 2.0;
    let v1 = load(x, [i + 1]) * 3.0;
    store(y, [i], v0 - v1);
}
schedule sm_80 {
    tile(i = 4);
    bind(i -> thread.x);
}
launch N = 5; data 7
";

    #[test]
    fn names_and_numbers_of_variables_are_not_what_a_case_is() {
        let mut case = Case::parse(TEXT).unwrap();
        assert_eq!(reads_back(&case), Ok(()));
        // Variables that stand in the table in another order, of one name.
        case.kernel.vars.swap(0, 1);
        case.kernel.vars.iter_mut().for_each(|v| v.name = "v".into());
        assert_eq!(reads_back(&case), Ok(()));
    }

    /// A name with a space is none, and one of a later loop is not the one that is meant.
    #[test]
    fn another_case_is_told() {
        let mut case = Case::parse(TEXT).unwrap();
        case.kernel.vars[0].name = "not a name".into();
        assert!(reads_back(&case).is_err());
        let mut case = Case::parse(TEXT).unwrap();
        case.kernel.tensors.push(case.kernel.tensors[0].clone());
        let Some(Stmt::Let { value: Expr { kind: ExprKind::Bin(_, load, _), .. }, .. }) =
            case.kernel.body.first_mut()
        else {
            panic!("a product")
        };
        let ExprKind::Load { tensor, .. } = &mut load.kind else { panic!("a load") };
        tensor.0 = 2;
        assert!(reads_back(&case).is_err());
    }
}

//! Limits of axes: `.below(hi)` and `.between(lo, hi)` behind a binder.

use super::kernel::{Reader, list, source};
use syn::ExprMethodCall;
use tile_dsl::{
    diagnostic::near,
    tile::{Form, Limits, Operation},
};

impl Reader<'_> {
    /// Reads the limits of an axis, if there are any; `None` when they have mistakes.
    pub(super) fn limits(&mut self, method: Option<&ExprMethodCall>) -> Option<Limits> {
        let Some(method) = method else { return Some(Limits::default()) };
        self.within(Some(Operation::Form(Form::Between)), |reader| reader.limits_of(method))
    }

    fn limits_of(&mut self, method: &ExprMethodCall) -> Option<Limits> {
        let name = method.method.to_string();
        let args: Vec<&syn::Expr> = method.args.iter().collect();
        match (name.as_str(), args.as_slice()) {
            ("below", [to]) => Some(Limits { from: None, to: Some(self.expr(to)?) }),
            ("between", [from, to]) => {
                let (from, to) = (self.expr(from), self.expr(to));
                Some(Limits { from: Some(from?), to: Some(to?) })
            }
            ("below" | "between", _) => {
                let form = if name == "below" { Form::Below } else { Form::Between };
                let (count, wanted) = (args.len(), if name == "below" { "one limit" } else { "two limits" });
                self.fail(
                    method,
                    format!("`{name}` takes {wanted}, not {count}"),
                    &format!("the form is `{}`", form.usage()),
                )
            }
            _ => {
                let known = [Form::Below, Form::Between].map(|form| form.name().to_string());
                let message = format!("an axis has no limit `{name}`");
                match known.iter().find(|k| near(k, &name)) {
                    Some(meant) => self.mend(&method.method, message, &method.method, meant),
                    None => {
                        let binder = source(&method.receiver);
                        let rule = format!("limits are {}: `{binder}.below(hi)`", list(&known));
                        self.fail(&method.method, message, &rule)
                    }
                }
            }
        }
    }
}

//! Tensors whose stored rows lanes exchange: how lanes hold them, and that each stores its own.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{LANES_OF_ROW, MATRIX_ROWS, Nest, NoExchange, NoStoredMatrices, Steps},
    plan::Unstored,
    schedule::DirectiveKind,
    tile::TensorId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.exchanged.keys().filter_map(|tensor| of(context, *tensor)).collect()
}

fn of(context: &Context<'_>, tensor: TensorId) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.tensor(tensor).name;
    let (_, loops) = nest.stored(tensor)?;
    let by = context.last(|k| matches!(k, DirectiveKind::Exchange { tensor } if tensor == name));
    let wrong = |text: String| context.at(by, nest.exchanged[&tensor], text).edits([Edit::instead([])]);
    let why = match context.stores.of_tensor(nest, tensor)? {
        Err(Unstored::Exchange(_, why)) => *why,
        _ if nest.across.is_empty() => return None,
        _ => {
            let text = format!(
                "CTAs share the sums that `{name}` holds: each has parts of rows, which lanes do not exchange"
            );
            return Some(wrong(text));
        }
    };
    let within = || Some(name.clone());
    let pairs = loops.iter().filter(|(d, kind)| kind.is_expanded() && d.steps == Steps::Fixed(2));
    let vectors = pairs
        .map(|(d, _)| Edit::put([DirectiveKind::Vectorize { digit: nest.digit_name(*d), within: within() }]));
    let unroll = match why {
        NoExchange::Between(d) if d.steps != Steps::Rest => {
            Some(Edit::put([DirectiveKind::Unroll { digit: nest.digit_name(d), within: within() }]))
        }
        _ => None,
    };
    let vectors: Vec<Edit> = match why {
        NoExchange::Matrices(NoStoredMatrices::Lanes) => vectors.collect(),
        _ => Vec::new(),
    };
    let edits = vectors.into_iter().chain(unroll).chain([Edit::instead([])]);
    Some(context.at(by, nest.exchanged[&tensor], spelled(nest, name, why)).edits(edits))
}

/// Why lanes do not exchange what they hold.
fn spelled(nest: &Nest, name: &str, why: NoExchange) -> String {
    match why {
        NoExchange::Matrices(NoStoredMatrices::Size(bytes)) => {
            format!("elements of `{name}` have {bytes} bytes: lanes exchange pairs of those of 2")
        }
        NoExchange::Matrices(NoStoredMatrices::Lanes) => format!(
            "lanes do not hold `{name}` as accumulators of `mma` and `wgmma` lie: eight rows of four lanes, each with a vector of two elements of a row"
        ),
        NoExchange::Matrices(NoStoredMatrices::Unaligned(digit, by)) => format!(
            "a step of `{}` moves what lanes hold of `{name}` by {by} elements of a row: lanes exchange rows of {MATRIX_ROWS}",
            nest.digit_name(digit)
        ),
        NoExchange::Fours => format!(
            "no unrolled loop takes {LANES_OF_ROW} times {MATRIX_ROWS} elements of a row of `{name}`: that is what {LANES_OF_ROW} lanes exchange"
        ),
        NoExchange::Columns => format!(
            "lanes hold columns of `{name}`, and no unrolled loops of 2 by 2 steps, or of {LANES_OF_ROW}, go over them: {LANES_OF_ROW} lanes exchange {LANES_OF_ROW} matrices"
        ),
        NoExchange::Between(digit) => format!(
            "`{}` runs inside of the loop over what lanes exchange of `{name}`: a lane holds no more than one step of it",
            nest.digit_name(digit)
        ),
        NoExchange::Ends(axis, points) => format!(
            "`{}` has {points} points, no multiple of {MATRIX_ROWS}: a lane would store what does not exist",
            nest.axis(axis)
        ),
        NoExchange::Starts(off) => {
            format!("rows of `{name}` are stored {off} elements off: lanes store vectors of {MATRIX_ROWS}")
        }
    }
}

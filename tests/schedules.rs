//! `schedule!`: extension across blocks, modules and crates, narrowing, and what a schedule carries.

use tile_dsl::{program::Program, schedule::Target};
use tilewright::{DType, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// C = A·B.
    #[tile_kernel]
    pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc.cast::<T>());
    }

    #[tile_kernel]
    pub(crate) fn linear<T: Float>(
        a: &Tensor<T, M, K>,
        b: &Tensor<T, K, N>,
        bias: &Tensor<T, N>,
        c: &mut Tensor<T, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], max(acc + load(bias, [j]).cast::<f32>(), 0.0).cast::<T>());
    }
}

mod ladder {
    use super::kernels::matmul;
    use tilewright::prelude::*;

    schedule! {
        /// One thread per element.
        ///
        /// Neighbouring lanes walk down a column of C.
        pub naive for matmul<f32 | f16 | bf16> {
            tile(i = 32, j = 32);
            bind(i -> thread.x, j -> thread.y);
        }
        /// Neighbouring lanes take neighbouring columns.
        pub coalesced = naive { bind(j -> thread.x, i -> thread.y); }
        /// A and B tiles pass through shared memory.
        pub(crate) shared = coalesced {
            tile(k = 32);
            stage(a, b at k: shared);
        }
    }
}

schedule! {
    /// Another module's schedule, for f32 only, on a newer target.
    narrow on sm_90 = ladder::shared<f32> { tile(k = 16); }
    plain = ladder::shared { drop(stage(a), stage(b)); drop(tile(k)); }
    /// Another kernel, the same directives.
    fused for kernels::linear<f32> = ladder::shared {}
}

mod other_crate {
    use tilewright::prelude::*;

    schedule! {
        pub wide = fixture_kernels::simple<f16> { tile(i = 256); }
        pub direct for fixture_kernels::nested::axpy<bf16> { tile(i = 64); bind(i -> thread); }
        pub doubled for fixture_kernels::twice { tile(i = 32); bind(i -> lane); }
    }
}

fn program<S: Schedule>(_: S, dtype: Option<DType>) -> Program {
    Program::from_bytes(S::program(dtype).expect("the schedule admits the type")).unwrap()
}

fn directives<S: Schedule>(schedule: S, dtype: Option<DType>) -> Vec<String> {
    program(schedule, dtype).schedule.directives.iter().map(ToString::to_string).collect()
}

#[test]
fn a_child_replaces_in_place_adds_and_drops() {
    let f32 = Some(DType::F32);
    let naive = ["tile(i = 32)", "tile(j = 32)", "bind(i -> thread.x)", "bind(j -> thread.y)"];
    assert_eq!(directives(ladder::naive, f32), naive);
    let coalesced = ["tile(i = 32)", "tile(j = 32)", "bind(i -> thread.y)", "bind(j -> thread.x)"];
    assert_eq!(directives(ladder::coalesced, f32), coalesced);
    let staged = ["tile(k = 16)", "stage(a at k: shared)", "stage(b at k: shared)"];
    assert_eq!(directives(narrow, f32), [coalesced.as_slice(), &staged].concat());
    assert_eq!(directives(plain, f32), coalesced);
}

#[test]
fn a_schedule_carries_its_name_docs_types_and_target() {
    assert_eq!(<ladder::naive as Schedule>::NAME, "naive");
    assert_eq!(
        <ladder::naive as Schedule>::DOC,
        "One thread per element.\n\nNeighbouring lanes walk down a column of C."
    );
    assert_eq!(<ladder::shared as Schedule>::DTYPES, [DType::F32, DType::F16, DType::BF16]);
    assert_eq!(<narrow as Schedule>::DTYPES, [DType::F32]);
    assert!(<narrow as Schedule>::program(Some(DType::F16)).is_none());
    assert!(<narrow as Schedule>::program(None).is_none());
    assert_eq!(program(narrow, Some(DType::F32)).schedule.target, Target { sm: 90, specific: false });
    assert_eq!(program(plain, Some(DType::F16)).schedule.target, Target::DEFAULT);
}

#[test]
fn schedules_of_other_kernels_and_crates_are_proved_here() {
    assert_eq!(program(fused, Some(DType::F32)).schedule.kernel, "linear");
    assert_eq!(<<fused as Schedule>::Kernel as tilewright::Kernel>::NAME, "linear");
    assert_eq!(directives(other_crate::wide, Some(DType::F16)), ["tile(i = 256)", "bind(i -> thread.x)"]);
    assert_eq!(<other_crate::wide as Schedule>::DTYPES, [DType::F16]);
    assert_eq!(program(other_crate::direct, Some(DType::BF16)).schedule.kernel, "axpy");
    assert_eq!(<other_crate::doubled as Schedule>::DTYPES, []);
    assert_eq!(program(other_crate::doubled, None).dtype, None);
}

#[test]
fn schedules_are_listed_and_launched_by_value() -> Result<(), tilewright::Error> {
    let all: &[&dyn AnySchedule] = &[&ladder::naive, &ladder::coalesced, &narrow];
    let names: Vec<_> = all.iter().map(|s| (s.kernel(), s.name(), s.admits(Some(DType::F16)))).collect();
    assert_eq!(
        names,
        [("matmul", "naive", true), ("matmul", "coalesced", true), ("matmul", "narrow", false)]
    );
    let device = Device::sim();
    let x = Buffer::<f16>::zeros(&device, &[8])?;
    let mut y = Buffer::<f16>::zeros(&device, &[8])?;
    let launch = fixture_kernels::nested::axpy(&x, &mut y, 0.5).schedule(other_crate::wide);
    drop(launch);
    Ok(())
}

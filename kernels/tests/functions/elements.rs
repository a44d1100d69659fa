//! Functions of elements.

use crate::{each_type, support::*};
use tilewright::{Buffer, Error, Float, Stream};
use tilewright_kernels::{add, gelu, gelu_tanh, silu, swiglu};

const SHAPES: [&[usize]; 6] = [&[], &[0], &[1], &[3, 5], &[2, 3, 683], &[2, 2048]];

/// The error function, by its series and, for large arguments, by its continued fraction.
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z < 3.0 {
        let (mut sum, mut term) = (z, z);
        for n in 1..100 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let tail = (1..60).rev().fold(z, |rest, n| z + f64::from(n) / 2.0 / rest);
        1.0 - (-z * z).exp() / (tail * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

type One<T> = fn(&Stream, &Buffer<T>, &mut Buffer<T>) -> Result<(), Error>;

fn one<T: Float>(name: &str, function: One<T>, exact: fn(f64) -> (f64, f64)) {
    for shape in SHAPES {
        let len = shape.iter().product();
        let mut x = normal::<T>(1, len);
        // Far out, where exponentials are infinite and zero.
        x.iter_mut().zip([100.0, -100.0, 0.0, -0.0, 9.0, -9.0]).for_each(|(x, far)| *x = T::from_f64(far));
        let mut y = poisoned(shape);
        function(&stream(), &buffer(&x, shape), &mut y).unwrap();
        check(name, &y, wide(&x).into_iter().map(exact));
    }
}

fn all_of_one<T: Float>() {
    // An exponential is worth eight roundings.
    one::<T>("silu", silu, |x| {
        let y = x / (1.0 + (-x).exp());
        (y, 16.0 * U * y.abs())
    });
    one::<T>("gelu", gelu, |x| {
        let y = 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2));
        (y, x.abs() * (0.75e-7 + 8.0 * U))
    });
    one::<T>("gelu_tanh", gelu_tanh, |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        (0.5 * x * (1.0 + inner.tanh()), x.abs() * 16.0 * U)
    });
}

#[test]
fn one_tensor() {
    each_type!(all_of_one);
}

fn all_of_two<T: Float>() {
    for shape in SHAPES {
        let len = shape.iter().product();
        let (a, b) = (normal::<T>(1, len), normal::<T>(2, len));
        let (x, y) = (buffer(&a, shape), buffer(&b, shape));
        let pairs = || wide(&a).into_iter().zip(wide(&b));
        let mut z = poisoned(shape);
        add(&stream(), &x, &y, &mut z).unwrap();
        check("add", &z, pairs().map(|(a, b)| (a + b, U * (a + b).abs())));
        let mut z = poisoned(shape);
        swiglu(&stream(), &x, &y, &mut z).unwrap();
        let exact = |(gate, up): (f64, f64)| {
            let y = gate / (1.0 + (-gate).exp()) * up;
            (y, 18.0 * U * y.abs())
        };
        check("swiglu", &z, pairs().map(exact));
    }
}

#[test]
fn two_tensors() {
    each_type!(all_of_two);
}

#[test]
fn halves_of_one_matrix() {
    let (rows, n) = (3, 70);
    let both = normal::<f32>(1, rows * 2 * n);
    let matrix = buffer(&both, &[rows, 2 * n]);
    let (gate, up) = (matrix.slice(&[0..rows, 0..n]).unwrap(), matrix.slice(&[0..rows, n..2 * n]).unwrap());
    let mut y = poisoned(&[rows, n]);
    swiglu(&stream(), &gate, &up, &mut y).unwrap();
    let exact = both.chunks(2 * n).flat_map(|row| {
        row[..n].iter().zip(&row[n..]).map(|(&gate, &up)| {
            let y = f64::from(gate) / (1.0 + f64::from(-gate).exp()) * f64::from(up);
            (y, 18.0 * U * y.abs())
        })
    });
    check("swiglu", &y, exact);
}

#[test]
fn infinities() {
    let (x, mut y) = (buffer(&[f32::INFINITY], &[1]), poisoned(&[1]));
    for function in [silu::<f32>, gelu::<f32>, gelu_tanh::<f32>] {
        function(&stream(), &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [f32::INFINITY]);
    }
}

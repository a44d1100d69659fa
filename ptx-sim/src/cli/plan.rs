//! What `--arg`, `--buffer` and `--set` ask for: buffers with their contents, and parameters in terms of them, so that one
//! plan serves the simulator and a GPU.

use super::element::{Element, Random};
use super::npy;
use ptx_sim::{AddressMode, Channel, Image, Memory, Module, Swizzle, TensorElement, TensorMap};
use std::collections::HashMap;

/// How arguments are written.
pub const ARGUMENTS: &str = "\
Arguments, in the order of the kernel's parameters:
  TYPE:VALUE             a number: u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64
  hex:00ff…              raw bytes
  NAME:SIZE[:FILL]       a new buffer; its address is passed
  NAME:=OTHER[+BYTES]    another name for a buffer, or for what follows its first bytes; the address is passed
  map:BUFFER[+BYTES]:ELEMENT:SIZES:BOX[:OPTION…]   a tensor map, sizes from the innermost on: map:a:f16:128x64:64x8:128B
      options: 32B, 64B or 128B (swizzle), strides=AxB (bytes, from the second dimension on; dense if left out),
      steps=1x2 (traversal), nan (fill outside)
  mapptr:…               the same in memory: its address is passed
  tex:BUFFER:CHANNEL[xN]:SIZES[:OPTION…]   a texture, as tex:image:u8x4:640x480:linear:normalized
      options: linear, normalized, wrap, mirror, border (clamped if left out), pitch=BYTES
  surf:…                 the same as a surface
SIZE: BYTES, COUNTxTYPE (as 1024xf16; also e4m3, e5m2), or nothing where FILL is a file.
FILL: zero (the default), iota (0, 1, 2, …), random (floats in [-1, 1), integers of all bits), random=LOW..HIGH, =VALUE,
  @FILE (.npy, or raw bytes). iota fills u32 and random f32 where SIZE names no type; every buffer has its own numbers.";

/// A buffer to be allocated.
pub struct Buffer {
    pub name: String,
    pub size: usize,
    /// `None`: zero.
    pub data: Option<Vec<u8>>,
    pub element: Option<Element>,
}

/// A place in a buffer: its number, and bytes from its start.
pub type Place = (usize, u64);

/// A parameter.
pub enum Param {
    Bytes(Vec<u8>),
    Pointer(Place),
    /// A tensor map; its own address counts from the place. With a buffer: it lies there.
    Map(TensorMap, Place, Option<usize>),
    Image(Image, Place),
}

/// Everything that a launch needs.
#[derive(Default)]
pub struct Plan {
    pub buffers: Vec<Buffer>,
    pub names: HashMap<String, Place>,
    pub params: Vec<Param>,
    /// Contents of module variables.
    pub sets: Vec<(String, Buffer)>,
    data_seed: u64,
}

fn sizes(list: &str) -> Option<Vec<u64>> {
    list.split('x').map(|n| n.parse().ok()).collect()
}

impl Plan {
    pub fn new(buffers: &[String], args: &[String], sets: &[String], data_seed: u64) -> Result<Plan, String> {
        let mut plan = Plan { data_seed, ..Plan::default() };
        for b in buffers {
            let (name, spec) =
                b.split_once(':').ok_or_else(|| format!("--buffer {b}: expected NAME:SIZE"))?;
            plan.buffer(name, spec)?;
        }
        // Maps and images name buffers that may come later.
        let mut late = vec![];
        for a in args {
            let param = plan.argument(a, &mut late)?;
            plan.params.push(param);
        }
        for (at, text) in late {
            plan.params[at] = plan.described(&text)?;
        }
        for s in sets {
            let (name, spec) =
                s.split_once(':').ok_or_else(|| format!("--set {s}: expected VARIABLE:SIZE:FILL"))?;
            let contents = plan.contents(name, spec)?;
            plan.sets.push((name.to_string(), contents));
        }
        Ok(plan)
    }

    fn contents(&self, name: &str, spec: &str) -> Result<Buffer, String> {
        let bad = |what: String| format!("buffer `{name}`: {what}");
        let (size, fill) = spec.split_once(':').unwrap_or((spec, "zero"));
        let (count, element) = match size.split_once('x') {
            Some((n, t)) => {
                let t = Element::parse(t)
                    .ok_or_else(|| bad(format!("`{t}` is no type: expected one of {}", Element::names())))?;
                (n, Some(t))
            }
            None => (size, None),
        };
        let file = match fill.strip_prefix('@') {
            Some(path) => {
                let raw = std::fs::read(path).map_err(|e| bad(format!("{path}: {e}")))?;
                Some(npy::read(&raw).map(<[u8]>::to_vec).unwrap_or(raw))
            }
            None => None,
        };
        let per = element.map_or(1, Element::bytes);
        let size = match (&file, count) {
            (Some(f), "") => f.len(),
            _ => count
                .parse::<usize>()
                .ok()
                .and_then(|n| n.checked_mul(per))
                .ok_or_else(|| bad(format!("`{size}` is neither a number of bytes nor COUNTxTYPE")))?,
        };
        let each = |default: Element, f: &mut dyn FnMut(Element, usize) -> Vec<u8>| {
            let e = element.unwrap_or(default);
            let mut out: Vec<u8> = (0..size.div_ceil(e.bytes())).flat_map(|i| f(e, i)).collect();
            out.truncate(size);
            Some(out)
        };
        let mut random = Random::new(self.data_seed, name);
        let data = match (file, fill) {
            (Some(f), _) if f.len() > size => {
                return Err(bad(format!("the file has {} bytes, the buffer {size}", f.len())));
            }
            (Some(f), _) => Some(f),
            (None, "zero") => None,
            (None, "iota") => each(Element::U32, &mut |e, i| match e.is_float() {
                true => e.encode(i as f64),
                false => (i as u64).to_le_bytes()[..e.bytes()].to_vec(),
            }),
            (None, "random") => each(Element::F32, &mut |e, _| match e.is_float() {
                true => e.encode(2.0 * random.unit() - 1.0),
                false => random.bits().to_le_bytes()[..e.bytes()].to_vec(),
            }),
            (None, fill) => match (fill.strip_prefix("random="), fill.strip_prefix('=')) {
                (Some(range), _) => {
                    let range = range.split_once("..").and_then(|(a, b)| {
                        Some((a.parse::<f64>().ok()?, b.parse::<f64>().ok()?)).filter(|(a, b)| a < b)
                    });
                    let (low, high) =
                        range.ok_or_else(|| bad(format!("`{fill}`: expected random=LOW..HIGH")))?;
                    each(Element::F32, &mut |e, _| {
                        let v = low + random.unit() * (high - low);
                        e.encode(if e.is_float() { v } else { v.floor() })
                    })
                }
                (_, Some(value)) => {
                    let e = element.unwrap_or(Element::U32);
                    let one = e.read(value).ok_or_else(|| bad(format!("`{value}` is not a {}", e.name())))?;
                    each(e, &mut |_, _| one.clone())
                }
                _ => {
                    return Err(bad(format!(
                        "`{fill}` is none of zero, iota, random, random=LOW..HIGH, =VALUE, @FILE"
                    )));
                }
            },
        };
        Ok(Buffer { name: name.to_string(), size, data, element })
    }

    fn buffer(&mut self, name: &str, spec: &str) -> Result<Place, String> {
        if self.names.contains_key(name) {
            return Err(format!("buffer `{name}` is given twice: {name}:=OTHER gives a buffer another name"));
        }
        let place = match spec.strip_prefix('=') {
            Some(other) => self.place(other)?,
            None => {
                let b = self.contents(name, spec)?;
                self.buffers.push(b);
                (self.buffers.len() - 1, 0)
            }
        };
        self.names.insert(name.to_string(), place);
        Ok(place)
    }

    /// `NAME[+BYTES]`
    pub fn place(&self, text: &str) -> Result<Place, String> {
        let (name, off) = text.split_once('+').unwrap_or((text, "0"));
        let (buffer, from) =
            self.names.get(name).ok_or_else(|| format!("there is no such buffer: `{name}`"))?;
        let off: u64 = off.parse().map_err(|_| format!("`{text}`: expected NAME+BYTES"))?;
        Ok((*buffer, from + off))
    }

    fn argument(&mut self, text: &str, late: &mut Vec<(usize, String)>) -> Result<Param, String> {
        let (kind, value) =
            text.split_once(':').ok_or_else(|| format!("`{text}`: expected TYPE:VALUE or NAME:SIZE"))?;
        let bad = || format!("`{text}`: `{value}` is not a {kind}");
        if let Some(e) = Element::parse(kind) {
            return e.read(value).map(Param::Bytes).ok_or_else(bad);
        }
        match kind {
            "hex" => {
                let digits = value.len().is_multiple_of(2) && value.bytes().all(|c| c.is_ascii_hexdigit());
                let bytes = (0..value.len() / 2).map(|i| u8::from_str_radix(&value[2 * i..2 * i + 2], 16));
                match digits {
                    true => bytes.collect::<Result<_, _>>().map(Param::Bytes).map_err(|_| bad()),
                    false => Err(bad()),
                }
            }
            "map" | "mapptr" | "tex" | "surf" => {
                late.push((self.params.len(), text.to_string()));
                Ok(Param::Bytes(vec![]))
            }
            name => self.buffer(name, value).map(Param::Pointer),
        }
    }

    fn described(&mut self, text: &str) -> Result<Param, String> {
        let bad = |what: &str| format!("`{text}`: {what}");
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [kind @ ("map" | "mapptr"), buffer, element, sizes, tile, ref options @ ..] => {
                let place = self.place(buffer).map_err(|e| bad(&e))?;
                let map = tensor_map(text, element, sizes, tile, options)?;
                let holder = (kind == "mapptr").then(|| {
                    let name = format!("map of {buffer}");
                    self.buffers.push(Buffer { name, size: 128, data: None, element: None });
                    self.buffers.len() - 1
                });
                Ok(Param::Map(map, place, holder))
            }
            ["map" | "mapptr", ..] => Err(bad("expected map:BUFFER:ELEMENT:SIZES:BOX[:OPTION…]")),
            [_, buffer, channel, sizes, ref options @ ..] => {
                let place = self.place(buffer).map_err(|e| bad(&e))?;
                Ok(Param::Image(image(text, channel, sizes, options)?, place))
            }
            _ => Err(bad("expected tex:BUFFER:CHANNEL[xN]:SIZES[:OPTION…]")),
        }
    }

    /// Allocates and fills the buffers of the simulator, and sets variables: the addresses, and the parameters' bytes.
    pub fn place_all(
        &self,
        module: &Module,
        memory: &mut Memory,
    ) -> Result<(Vec<u64>, Vec<Vec<u8>>), String> {
        let text = |e: ptx_sim::MemoryError| e.to_string();
        let mut at = vec![];
        for b in &self.buffers {
            let a = memory.alloc(&b.name, b.size as u64).map_err(text)?;
            if let Some(data) = &b.data {
                memory.write(a, data).map_err(text)?;
            }
            at.push(a);
        }
        for (name, contents) in &self.sets {
            let (name, size) = (variable(module, name)?, contents.size);
            let (a, has) = module
                .variable(memory, name)
                .map_err(text)?
                .ok_or_else(|| format!("there is no variable `{name}`"))?;
            if size as u64 > has {
                return Err(format!("--set {name}: {size} bytes do not fit the variable's {has}"));
            }
            memory.write(a, contents.data.as_deref().unwrap_or(&vec![0; size])).map_err(text)?;
        }
        let mut params = vec![];
        for p in &self.params {
            params.push(match p {
                Param::Bytes(b) => b.clone(),
                Param::Pointer((b, off)) => (at[*b] + off).to_le_bytes().to_vec(),
                Param::Map(map, (b, off), holder) => {
                    let mut map = map.clone();
                    map.address = at[*b] + off;
                    let bytes = map.encode().map_err(|e| e.to_string())?;
                    match holder {
                        None => bytes.to_vec(),
                        Some(h) => {
                            memory.write(at[*h], &bytes).map_err(text)?;
                            at[*h].to_le_bytes().to_vec()
                        }
                    }
                }
                Param::Image(image, (b, off)) => {
                    let mut image = image.clone();
                    image.address = at[*b] + off;
                    memory.add_image(image).map_err(text)?.to_le_bytes().to_vec()
                }
            });
        }
        Ok((at, params))
    }
}

/// The module variable of that name, or the only one whose name contains it.
pub fn variable<'m>(module: &'m Module, name: &str) -> Result<&'m str, String> {
    let all: Vec<&str> = module.variables().collect();
    if let Some(exact) = all.iter().find(|v| **v == name) {
        return Ok(exact);
    }
    let like: Vec<&str> =
        all.into_iter().filter(|v| v.contains(name) || ptx_sim::demangle(v).contains(name)).collect();
    match like[..] {
        [one] => Ok(one),
        [] => Err(format!("there is no buffer or variable `{name}`")),
        _ => Err(format!("`{name}` may be {}", like.join(", "))),
    }
}

fn tensor_map(
    text: &str,
    element: &str,
    dims: &str,
    tile: &str,
    options: &[&str],
) -> Result<TensorMap, String> {
    let bad = |what: &str| format!("`{text}`: {what}");
    let element = match element {
        "u8" => TensorElement::U8,
        "u16" => TensorElement::U16,
        "u32" => TensorElement::U32,
        "s32" => TensorElement::I32,
        "u64" => TensorElement::U64,
        "s64" => TensorElement::I64,
        "f16" => TensorElement::F16,
        "bf16" => TensorElement::BF16,
        "f32" => TensorElement::F32,
        "f64" => TensorElement::F64,
        _ => return Err(bad("expected an element u8, u16, u32, s32, u64, s64, f16, bf16, f32 or f64")),
    };
    let numbers = |list: &str| sizes(list).ok_or_else(|| bad("expected sizes such as 128x64"));
    let small = |list: &str| -> Result<Vec<u32>, String> {
        numbers(list)?
            .into_iter()
            .map(|n| u32::try_from(n).map_err(|_| bad("a size is above 2^32")))
            .collect()
    };
    let dims = numbers(dims)?;
    let dense: Vec<u64> = dims[..dims.len() - 1]
        .iter()
        .scan(u64::from(element.bytes()), |stride, n| {
            *stride = stride.saturating_mul(*n);
            Some(*stride)
        })
        .collect();
    let mut map = TensorMap::new(0, element, &dims, &dense, &small(tile)?);
    for o in options {
        match (*o, o.split_once('=')) {
            ("32B", _) => map.swizzle = Swizzle::B32,
            ("64B", _) => map.swizzle = Swizzle::B64,
            ("128B", _) => map.swizzle = Swizzle::B128,
            ("nan", _) => map.nan_fill = true,
            (_, Some(("strides", list))) => map.strides = numbers(list)?,
            (_, Some(("steps", list))) => map.steps = small(list)?,
            _ => return Err(bad("expected a swizzle 32B, 64B or 128B, strides=AxB, steps=AxB or nan")),
        }
    }
    map.validate().map_err(|e| bad(&e.to_string()))?;
    Ok(map)
}

fn image(text: &str, channel: &str, dims: &str, options: &[&str]) -> Result<Image, String> {
    let bad = |what: &str| format!("`{text}`: {what}");
    let (channel, n) = channel.split_once('x').unwrap_or((channel, "1"));
    let channel = match channel {
        "u8" => Channel::U8,
        "s8" => Channel::S8,
        "u16" => Channel::U16,
        "s16" => Channel::S16,
        "u32" => Channel::U32,
        "s32" => Channel::S32,
        "f16" => Channel::F16,
        "f32" => Channel::F32,
        _ => return Err(bad("expected a channel u8, s8, u16, s16, u32, s32, f16 or f32")),
    };
    let channels = match n {
        "1" | "2" | "4" => n.parse().unwrap_or(1),
        _ => return Err(bad("a texel has 1, 2 or 4 channels")),
    };
    let list =
        sizes(dims).filter(|l| (1..=3).contains(&l.len()) && l.iter().all(|n| (1..=1 << 20).contains(n)));
    let list = list.ok_or_else(|| bad("expected one to three sizes such as 640x480"))?;
    let extent = std::array::from_fn(|d| list.get(d).map_or(1, |n| *n as u32));
    let mut image = Image::new(0, channel, channels, extent);
    for o in options {
        match (*o, o.strip_prefix("pitch=").map(str::parse)) {
            ("linear", _) => image.linear = true,
            ("normalized", _) => image.normalized = true,
            ("wrap", _) => image.address_mode = AddressMode::Wrap,
            ("mirror", _) => image.address_mode = AddressMode::Mirror,
            ("border", _) => image.address_mode = AddressMode::Border,
            (_, Some(Ok(pitch))) if pitch >= image.pitch => image.pitch = pitch,
            _ => {
                return Err(bad(
                    "expected linear, normalized, wrap, mirror, border or pitch=BYTES, at least a row's",
                ));
            }
        }
    }
    Ok(image)
}

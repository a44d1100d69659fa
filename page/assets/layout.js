// Layouts: from the coordinates of an element to the thread and the register that hold it.
const UNITS = new Map(D.units.map((u) => [u.name, u]));
const points = (v, axis) => v.digits.filter((d) => d.axis === axis).reduce((n, d) => n * (d.steps ?? 1), 1);

// The steps of a value's digits at a point (axis → coordinate in the tile).
function stepsAt(v, point) {
  const steps = new Map();
  for (const axis of v.axes) {
    let rest = point[axis] || 0;
    const own = v.digits.filter((d) => d.axis === axis).sort((a, b) => b.stride - a.stride);
    for (const digit of own) {
      const n = digit.steps == null ? 0 : Math.floor(rest / digit.stride) % digit.steps;
      rest -= n * digit.stride;
      steps.set(digit, n);
    }
  }
  return steps;
}
// Who holds the element: thread of the CTA, warp, lane, register.
function holder(v, point) {
  const steps = stepsAt(v, point),
    at = new Map();
  for (const [digit, n] of steps) if (digit.unit && !digit.xor) at.set(digit.unit, n);
  // A combined coordinate is the step xor another coordinate of the unit.
  for (const [digit, n] of steps)
    if (digit.unit && digit.xor)
      at.set(digit.unit, n ^ (at.get(digit.unit.split(".")[0] + "." + digit.xor) ?? 0));
  let thread = 0,
    register = 0,
    weight = 1;
  for (const [unit, n] of at) thread += n * (UNITS.get(unit)?.stride ?? 0);
  for (const digit of [...v.digits].reverse().filter((d) => !d.unit)) {
    register += steps.get(digit) * weight;
    weight *= digit.steps ?? 1;
  }
  return { thread, warp: Math.floor(thread / 32), lane: thread % 32, register };
}
// Units of which all coordinates hold the same elements.
function replicas(v) {
  const used = new Set(v.digits.map((d) => d.unit));
  return D.units.filter((u) => !used.has(u.name) && u.extent > 1);
}
// The picture of a value: rows are the steps of all axes but the last, columns those of the last; one axis alone is cut into lines.
// `cell` gives the point of a place, `axis` its name, `inside` whether there is one. None where nothing can be drawn.
function plane(v) {
  const axes = v.axes.filter((a) => points(v, a) > 1);
  const column = axes.pop() ?? v.axes[v.axes.length - 1],
    columns = column ? points(v, column) : 0;
  const rows = axes.reduce((n, a) => n * points(v, a), 1);
  if (!columns || rows * columns > 1 << 18) return null;
  const along = (r) => {
    const at = {};
    for (const axis of [...axes].reverse()) {
      at[axis] = r % points(v, axis);
      r = Math.floor(r / points(v, axis));
    }
    return at;
  };
  const wrap = axes.length ? columns : Math.min(columns, 64),
    lines = axes.length ? rows : Math.ceil(columns / wrap);
  const cell = (y, x) => (axes.length ? { ...along(y), [column]: x } : { [column]: y * wrap + x });
  return {
    lines,
    wrap,
    cell,
    inside: (y, x) =>
      y >= 0 && x >= 0 && y < lines && x < wrap && (axes.length > 0 || y * wrap + x < columns),
    axis: (y, x) =>
      Object.entries(cell(y, x))
        .map(([axis, n]) => `${axis} = ${n}`)
        .join(", "),
    about: axes.length
      ? `${rows} rows (${axes.join(", ")}) by ${columns} columns (${column})`
      : `${plural(columns, "element")} along ${column}, in lines of ${wrap}`,
  };
}
// The lanes of a warp that hold what one of them holds, itself included.
function alike(v, lane) {
  let all = [lane];
  for (const u of replicas(v).filter((u) => u.stride * u.extent <= 32))
    all = all.flatMap((l) => {
      const first = l - (Math.floor(l / u.stride) % u.extent) * u.stride;
      return Array.from({ length: u.extent }, (_, n) => first + n * u.stride);
    });
  return [...new Set(all)].sort((a, b) => a - b);
}

// The byte of its buffer at which an element of a copy lies, and back: rows, panels of swizzled rows, the swizzle itself.
function place(c, r, q) {
  const rows = Math.floor(c.elements / c.row);
  const element = c.panel ? (Math.floor(q / c.panel) * rows + r) * c.panel + (q % c.panel) : r * c.row + q;
  const byte = element * c.bytes;
  return c.swizzle ? byte ^ (((byte >> 7) & (c.swizzle / 16 - 1)) << 4) : byte;
}

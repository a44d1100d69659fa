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
// The two axes of a value's picture: rows and columns.
function plane(v) {
  const axes = v.axes.filter((a) => points(v, a) > 1);
  const [row, column] =
    axes.length > 1 ? [axes[0], axes[axes.length - 1]] : [null, axes[0] ?? v.axes[0] ?? null];
  return { row, column, rows: row ? points(v, row) : 1, columns: column ? points(v, column) : 1 };
}

// The byte of its buffer at which an element of a copy lies, and back: rows, panels of swizzled rows, the swizzle itself.
function place(c, r, q) {
  const rows = Math.floor(c.elements / c.row);
  const element = c.panel ? (Math.floor(q / c.panel) * rows + r) * c.panel + (q % c.panel) : r * c.row + q;
  const byte = element * c.bytes;
  return c.swizzle ? byte ^ (((byte >> 7) & (c.swizzle / 16 - 1)) << 4) : byte;
}

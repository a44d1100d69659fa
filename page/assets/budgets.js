// Panel 6: what a CTA takes of a multiprocessor, how many fit, waves, and which resource takes longest.
const sizes = { ...D.head.dims };

// Tiles of a factor of the grid.
function tiles(g) {
  const extent = Math.max(
    0,
    g.constant + Object.entries(g.dims).reduce((n, [dim, c]) => n + c * (sizes[dim] || 0), 0),
  );
  const whole = Math.floor(g.period / g.tile),
    rest = g.period % g.tile,
    periods = Math.floor(extent / g.period),
    left = extent % g.period;
  const last = rest > 0 ? periods + (left > whole * g.tile ? 1 : 0) : 0;
  return periods * whole + Math.min(Math.ceil(left / g.tile), whole) + last;
}
const resident = () => Math.min(...D.budgets.limits.map((l) => l.ctas));

function bars(rows, unit) {
  const most = Math.max(...rows.map(([, n]) => n), 1e-9);
  return el(
    "div",
    { class: "bars" },
    rows.map(([name, n, kind]) => [
      el("span", {}, name),
      el("div", { class: `bar ${kind || ""}`, style: `width:${Math.max(0.3, (100 * n) / most)}%` }),
      el("span", { class: "mono" }, `${number(n, n < 100 ? 2 : 0)} ${unit}`),
    ]),
  );
}
function sharedMap(b) {
  const W = 560,
    scale = W / Math.max(1, b.shared_bytes),
    rows = [];
  const place = (s) => {
    let r = 0;
    while (rows[r]?.some((o) => o.start < s.start + s.bytes && s.start < o.start + o.bytes)) r++;
    (rows[r] ||= []).push(s);
    return r;
  };
  const drawn = b.shared.map((s, n) => {
    const r = place(s),
      w = s.bytes * scale;
    return draw(
      "g",
      { "data-k": s.name },
      draw("title", {}, `${s.name}: ${number(s.bytes)} bytes from byte ${number(s.start)}`),
      draw("rect", {
        x: s.start * scale,
        y: r * 30,
        width: Math.max(1.5, w - 1),
        height: 26,
        fill: shaded(n * 5 + 8),
        stroke: "var(--line)",
      }),
      w > 44
        ? draw(
            "text",
            {
              x: s.start * scale + w / 2,
              y: r * 30 + 17,
              "text-anchor": "middle",
              style: `fill:${onShade(n * 5 + 8)}`,
            },
            s.name,
          )
        : "",
    );
  });
  return picture(W, rows.length * 30, "shared memory of a CTA by buffer", drawn);
}
function waves(b, box) {
  const grid = b.grid.map(tiles),
    all = grid.reduce((n, t) => n * t, 1),
    places = resident() * b.gpu.multiprocessors;
  const launched = b.persistent ? Math.min(all, b.persistent * b.gpu.multiprocessors) : all,
    n = launched / places,
    rounds = Math.max(1, Math.ceil(n));
  const turns = b.persistent && launched ? Math.ceil(all / launched) : 0;
  box.replaceChildren(
    el(
      "p",
      {},
      `${grid.join(" × ")} tiles = `,
      el("b", {}, plural(all, "tile")),
      b.persistent
        ? `, taken by ${plural(launched, "CTA")} in turn: at most ${plural(turns, "tile")} each, ${number((100 * all) / (turns * launched || 1), 1)} % of the turns used.`
        : `, a CTA each. ${b.gpu.name} holds at most ${resident()} × ${b.gpu.multiprocessors} = ${number(places)} at a time: ${plural(n, "wave")}; the last is ${number(100 * (n - rounds + 1 || 1), 1)} % full.`,
    ),
    b.persistent
      ? ""
      : picture(
          560,
          22,
          "waves",
          Array.from({ length: Math.min(rounds, 40) }, (_, k) => {
            const w = 560 / Math.min(rounds, 40),
              part = Math.max(0, Math.min(1, n - k));
            return [
              draw("rect", { x: k * w, y: 2, width: w - 2, height: 18, fill: "none", stroke: "var(--dim)" }),
              draw("rect", { x: k * w, y: 2, width: (w - 2) * part, height: 18, fill: "var(--accent)" }),
            ];
          }),
        ),
    !b.persistent && rounds > 40 ? el("p", { class: "dim" }, "The first 40 waves are drawn.") : "",
  );
}
function roofline(r) {
  const W = 560,
    H = 250,
    X = 52,
    Y = 30,
    x = [Math.log10(0.1), Math.log10(10000)],
    R = 26,
    top = Math.log10(r.peak) + 0.4,
    y = [top - 4, top];
  const px = (v) => X + ((Math.log10(v) - x[0]) / (x[1] - x[0])) * (W - X - R),
    py = (v) => H - Y - ((Math.log10(v) - y[0]) / (y[1] - y[0])) * (H - Y - 8);
  const roof = (v) => Math.min(r.peak, v * r.bandwidth),
    ridge = r.peak / r.bandwidth,
    out = [];
  for (const v of [0.1, 1, 10, 100, 1000, 10000])
    out.push(
      draw("line", { x1: px(v), x2: px(v), y1: 8, y2: H - Y, stroke: "var(--line)" }),
      label(px(v), H - Y + 14, v, { "text-anchor": "middle", class: "dim" }),
    );
  for (let e = Math.ceil(y[0]); e <= y[1]; e++)
    out.push(
      draw("line", { x1: X, x2: W - R, y1: py(10 ** e), y2: py(10 ** e), stroke: "var(--line)" }),
      label(X - 4, py(10 ** e) + 4, `${number(10 ** (e - 12), 3)} T`, { "text-anchor": "end", class: "dim" }),
    );
  out.push(
    draw("polyline", {
      points: [0.1, ridge, 10000].map((v) => `${px(v)},${Math.min(H - Y, py(roof(v)))}`).join(" "),
      fill: "none",
      stroke: "var(--fg)",
      "stroke-width": 2,
    }),
  );
  const mark = (bytes, name, fill) => {
    const v = r.flops / bytes,
      at = Math.max(0.1, Math.min(10000, v));
    out.push(
      draw("circle", { cx: px(at), cy: py(roof(at)), r: 6, fill, stroke: "var(--bg)", "stroke-width": 1.5 }),
    );
    return el(
      "span",
      {},
      el("i", { style: `background:${fill}` }),
      `${name}: ${plural(v, "operation")} a byte, at most ${number(roof(v) / 1e12, 1)} TFLOP/s`,
    );
  };
  const legend = [
    mark(r.bytes_moved, "with all sectors touched", "#d55e00"),
    mark(r.bytes_least, "with each tensor moved once", "#56b4e9"),
  ];
  out.push(label(W / 2, H - 2, "operations a byte", { "text-anchor": "middle", class: "dim" }));
  return el("div", {}, el("div", { class: "legend" }, legend), picture(W, H, "roofline", out));
}

if (D.budgets)
  panel(
    "budgets",
    "Budgets",
    "What a CTA takes of a multiprocessor decides how many run at a time. What it asks of each resource decides which of them it waits for.",
    (body) => {
      const b = D.budgets,
        left = el("div"),
        right = el("div");
      const n = resident(),
        why = b.limits
          .filter((l) => l.ctas === n)
          .map((l) => l.resource)
          .join(" and ");
      left.append(
        el("h3", {}, `shared memory of a CTA: ${number(b.shared_bytes)} bytes`),
        b.shared.length ? sharedMap(b) : el("p", { class: "dim" }, "It uses none."),
      );
      left.append(
        el("h3", {}, "registers of a thread"),
        el(
          "p",
          {},
          b.registers
            ? `${b.registers[0]} ${b.registers[1]}. `
            : "Their number is not known: the assembler of the driver decides, and no GPU ran. ",
          "The kernel keeps in them: ",
          b.fragments.length
            ? b.fragments.map((f, k) => [k ? ", " : "", named(f.name), ` (${f.elements} × ${f.dtype})`])
            : "no arrays",
          `. The largest of them fills ${b.registers_of_values}; addresses and operands come on top.`,
        ),
      );
      left.append(
        el("h3", {}, `CTAs of a multiprocessor (${D.head.target}), by resource`),
        bars(
          b.limits.map((l) => [l.resource, l.ctas, l.ctas === n ? "least" : ""]),
          "CTAs",
        ),
        el(
          "p",
          {},
          "At most ",
          el("b", {}, plural(n, "CTA")),
          `, limited by ${why}. `,
          !b.registers && b.registers_allowed
            ? `More than ${b.registers_allowed} registers a thread would allow fewer. `
            : "",
          b.wanted ? `The schedule asks the assembler for room for ${b.wanted}. ` : "",
          b.cluster ? `CTAs run in clusters of ${b.cluster}. ` : "",
        ),
      );
      const box = el("div"),
        dims = [...new Set(b.grid.flatMap((g) => Object.keys(g.dims)))];
      const input = (dim) =>
        el(
          "label",
          {},
          `${dim} = `,
          el("input", {
            type: "number",
            min: 1,
            value: sizes[dim] ?? 1,
            input: (e) => {
              sizes[dim] = Math.max(1, +e.target.value || 1);
              waves(b, box);
            },
          }),
        );
      if (b.grid.length && b.limits.length && dims.every((d) => sizes[d] != null)) {
        right.append(
          el("h3", {}, "waves: at other sizes, too"),
          el("div", { class: "row" }, dims.map(input)),
          box,
        );
        waves(b, box);
      }
      right.append(
        el("h3", {}, `cycles of one multiprocessor of an ${b.gpu.name} that a CTA takes of each resource`),
        bars(
          b.times.map((t) => [
            t.resource,
            t.cycles,
            t.cycles === Math.max(...b.times.map((u) => u.cycles)) ? "least" : "",
          ]),
          "cycles",
        ),
        el(
          "p",
          { class: "dim" },
          "From the counts of this run, each resource as if it were the only one. The longest, orange, is the least time that a CTA can take. Instructions are those of PTX; the assembler makes other ones. DRAM: each tensor once, shared out evenly.",
        ),
      );
      if (b.roofline)
        left.append(
          el("h3", {}, `roofline: ${b.roofline.peak_of}`),
          roofline(b.roofline),
          el(
            "p",
            { class: "dim" },
            "Points lie on the roof: no time was measured. A larger launch reuses more, and moves to the right.",
          ),
        );
      body.append(el("div", { class: "columns" }, left, right));
    },
  );

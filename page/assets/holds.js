// Panel 3: who holds what: a value by warp, lane and register, a copy by bank.
let held = 0,
  picked = { warp: 0, lane: 0 };

function drawValue(v, body) {
  const grid = plane(v);
  if (!grid) {
    const none = v.axes.length
      ? "Its tile has no fixed size to draw."
      : `${v.name} is one number: each thread that needs it has it.`;
    body.append(el("p", {}, none));
    return;
  }
  const { lines, wrap, cell, inside, axis } = grid;
  const read = el("div", { class: "readout", "aria-live": "polite" });
  const tell = (y, x) => {
    const h = holder(v, cell(y, x));
    read.replaceChildren(
      `${axis(y, x)}: warp ${h.warp}, lane ${h.lane}, ${v.shared ? "element" : "register"} ${v.name}[${h.register}]. Steps: `,
      ...[...stepsAt(v, cell(y, x))].flatMap(([d, n], k) => [
        k ? ", " : "",
        named(d.name),
        ` = ${n}${d.unit ? ` on ${d.unit}` : ""}`,
      ]),
    );
  };
  // Wide tiles take the whole width, and lie above the warp.
  const flat = wrap > 2 * lines,
    room = flat ? 1150 : 560;
  const sx = wrap > room ? room / wrap : Math.min(16, Math.floor(room / Math.max(wrap, flat ? 1 : lines)));
  const sy = flat
    ? Math.max(4, Math.min(18, Math.floor(400 / lines)))
    : Math.max(1, Math.min(sx, Math.floor(640 / lines)));
  const tile = el("canvas", {
    width: wrap * sx,
    height: lines * sy,
    tabindex: 0,
    role: "img",
    "aria-label": `${v.name} by warp; arrow keys move`,
  });
  const zoom = el("div"),
    registers = el("div");
  let cursor = [0, 0];
  const paint = () => {
    const cx = tile.getContext("2d"),
      mine = color("--fg");
    cx.clearRect(0, 0, tile.width, tile.height);
    for (let y = 0; y < lines; y++)
      for (let x = 0; x < wrap; x++)
        if (inside(y, x)) {
          const h = holder(v, cell(y, x));
          cx.fillStyle = WARPS[h.warp % 8];
          cx.fillRect(x * sx, y * sy, Math.max(sx, 1), sy);
          if (h.warp === picked.warp && h.lane === picked.lane) {
            cx.fillStyle = "#101214";
            cx.fillRect(x * sx, y * sy, Math.max(sx, 1), sy);
          }
        }
    cx.strokeStyle = mine;
    cx.lineWidth = 2;
    cx.strokeRect(cursor[1] * sx, cursor[0] * sy, sx, sy);
  };
  const go = (y, x, pick) => {
    if (!inside(y, x)) return;
    cursor = [y, x];
    if (pick) picked = holder(v, cell(y, x));
    paint();
    tell(y, x);
    if (pick) {
      drawWarp(v, zoom, grid);
      drawLane(v, registers, grid);
    }
  };
  const where = (e) => {
    const b = tile.getBoundingClientRect();
    return [
      Math.floor(((e.clientY - b.top) / b.height) * lines),
      Math.floor(((e.clientX - b.left) / b.width) * wrap),
    ];
  };
  tile.addEventListener("mousemove", (e) => {
    const [y, x] = where(e);
    if (inside(y, x)) tell(y, x);
  });
  tile.addEventListener("click", (e) => go(...where(e), true));
  tile.addEventListener(
    "keydown",
    arrows((dx, dy) => go(cursor[0] + dy, cursor[1] + dx, true)),
  );
  const copies = replicas(v);
  const warps = new Set();
  for (let y = 0; y < lines; y += Math.max(1, lines >> 6))
    for (let x = 0; x < wrap; x++) if (inside(y, x)) warps.add(holder(v, cell(y, x)).warp);
  const legend = el(
    "div",
    { class: "legend" },
    [...warps]
      .sort((a, b) => a - b)
      .slice(0, 16)
      .map((w) => el("span", {}, el("i", { style: `background:${WARPS[w % 8]}` }), `warp ${w}`)),
    el("span", {}, el("i", { style: "background:#101214" }), "the chosen lane"),
  );
  body.append(
    el(
      "p",
      {},
      `The tile of a CTA: ${grid.about}.`,
      v.shared
        ? ` ${v.name} lies in shared memory, where all threads of the CTA reach it. Drawn: who computes an element.`
        : ` Each thread holds ${plural(v.registers, "element")}.`,
      " Choose an element: its warp and lane are shown beside.",
      copies.length
        ? ` Threads that differ in ${copies.map((u) => u.name).join(", ")} alone hold the same elements.`
        : "",
    ),
    legend,
    el(
      "div",
      flat ? {} : { class: "columns", style: "grid-template-columns:max-content 1fr" },
      el("div", {}, el("h3", {}, "tile, by warp"), tile),
      zoom,
    ),
    read,
    registers,
  );
  go(0, 0, true);
}
// The elements of a warp, squeezed: rows and columns that it has none of are left out.
function drawWarp(v, box, { lines, wrap, cell, inside, axis }) {
  const ys = new Set(),
    xs = new Set();
  for (let y = 0; y < lines; y++)
    for (let x = 0; x < wrap; x++)
      if (inside(y, x) && holder(v, cell(y, x)).warp === picked.warp) {
        ys.add(y);
        xs.add(x);
      }
  let Y = [...ys],
    X = [...xs];
  const cut = Y.length > 64 || X.length > 256;
  [Y, X] = [Y.slice(0, 64), X.slice(0, 256)];
  const room = wrap > 2 * lines ? 1150 : 540;
  const s = Math.max(4, Math.min(24, Math.floor(room / Math.max(X.length, 1)))),
    h = Math.max(12, Math.min(s, 16)),
    out = [];
  // Neighbours of one lane are one rectangle, with its number once.
  Y.forEach((y, r) => {
    for (let q = 0; q < X.length;) {
      const lane = inside(y, X[q]) ? holder(v, cell(y, X[q])).lane : -1;
      let n = 1;
      while (q + n < X.length && holder(v, cell(y, X[q + n])).lane === lane) n++;
      const own = lane < 0 ? [] : alike(v, lane),
        mine = own.includes(picked.lane);
      if (lane >= 0)
        out.push(
          draw(
            "g",
            {},
            draw("title", {}, `${axis(y, X[q])}: ${own.length > 1 ? "lanes" : "lane"} ${own.join(", ")}`),
            draw("rect", {
              x: q * s,
              y: r * h,
              width: n * s - 0.5,
              height: h - 0.5,
              fill: mine ? "#101214" : shaded(lane),
            }),
            n * s > 13
              ? draw(
                  "text",
                  {
                    x: q * s + (n * s) / 2,
                    y: r * h + h / 2 + 3.5,
                    "text-anchor": "middle",
                    style: `fill:${mine ? "#fff" : onShade(lane)};font-size:10px`,
                  },
                  own.length > 1 && n * s > 70
                    ? `lanes ${own.join(", ")}`.slice(0, (n * s) / 6)
                    : String(lane),
                )
              : "",
          ),
        );
      q += n;
    }
  });
  box.replaceChildren(
    el(
      "h3",
      {},
      `warp ${picked.warp}: who of its 32 lanes holds which element${cut ? ` (${Y.length} rows, ${X.length} columns of them)` : ""}`,
    ),
    picture(X.length * s, Y.length * h, `warp ${picked.warp} by lane`, out),
  );
}
function drawLane(v, box, { lines, wrap, cell, inside, axis }) {
  const found = [];
  for (let y = 0; y < lines; y++)
    for (let x = 0; x < wrap; x++)
      if (inside(y, x)) {
        const h = holder(v, cell(y, x));
        if (h.warp === picked.warp && h.lane === picked.lane) found.push([h.register, axis(y, x)]);
      }
  found.sort((a, b) => a[0] - b[0]);
  const shown = found.slice(0, 64);
  const short = (text) => text.replace(/\w+ = /g, "");
  box.replaceChildren(
    el(
      "h3",
      {},
      `warp ${picked.warp}, lane ${picked.lane}: its ${plural(found.length, v.shared ? "element" : "register")} of ${v.name}, and which element each ${v.shared ? "is" : "holds"} (${Object.keys(cell(0, 0)).join(", ")})${found.length > 64 ? "; the first 64" : ""}`,
    ),
    el(
      "div",
      { class: "chips" },
      shown.map(([n, where]) =>
        el("span", { class: "chip register", title: where }, `[${n}]`, el("small", {}, short(where))),
      ),
    ),
  );
}

function drawCopy(c, body) {
  const rows = Math.floor(c.elements / c.row),
    wide = c.row;
  const s = Math.max(3, Math.min(12, Math.floor(1150 / wide))),
    h = Math.max(4, Math.min(12, Math.floor(420 / rows)));
  const contiguous = c.strides.indexOf(1),
    others = c.index.filter((_, d) => d !== contiguous);
  const canvas = el("canvas", {
    width: wide * s,
    height: rows * h,
    role: "img",
    tabindex: 0,
    "aria-label": `${c.name} in shared memory by bank`,
  });
  const read = el("div", { class: "readout", "aria-live": "polite" }, "Hover an element to read its place.");
  const bank = (r, q) => Math.floor(place(c, r, q) / 4) % 32;
  const who =
    D.memory?.accesses
      .map((a, n) => [a, n])
      .filter(([a]) => a.shared && a.buffer.split(" or ").includes(c.name) && a.warps.length) || [];
  // The access that costs most beyond what its bytes need, shown first.
  const excess = ([a]) => (a.counted.units - a.counted.least) / a.counted.requests;
  let access = who.length ? who.reduce((x, y) => (excess(y) > excess(x) ? y : x))[1] : null;
  const paint = () => {
    const cx = canvas.getContext("2d"),
      asked = new Map();
    if (access != null) {
      const a = D.memory.accesses[access],
        w = a.warps[0];
      w.lanes.forEach((byte, lane) => {
        if (byte != null) for (let b = 0; b < a.bytes; b += c.bytes) asked.set(byte - c.start + b, lane);
      });
    }
    for (let r = 0; r < rows; r++)
      for (let q = 0; q < wide; q++) {
        const byte = place(c, r, q),
          padding = q >= c.extents[contiguous];
        cx.fillStyle = padding ? color("--soft") : shaded(bank(r, q));
        cx.fillRect(q * s, r * h, s - (s > 4 ? 0.5 : 0), h - 0.5);
        if (asked.has(byte)) {
          cx.fillStyle = "#d55e00";
          cx.fillRect(q * s, r * h, s, h);
          cx.strokeStyle = "#fff";
          cx.strokeRect(q * s + 0.5, r * h + 0.5, s - 1, h - 1);
        }
      }
  };
  canvas.addEventListener("mousemove", (e) => {
    const b = canvas.getBoundingClientRect(),
      q = Math.floor(((e.clientX - b.left) / b.width) * wide),
      r = Math.floor(((e.clientY - b.top) / b.height) * rows);
    if (r < 0 || q < 0 || r >= rows || q >= wide) return;
    read.textContent =
      q >= c.extents[contiguous]
        ? `padding of row ${r}`
        : `row ${r}, ${c.index[contiguous]} = ${q}: byte ${place(c, r, q)} of the buffer, bank ${bank(r, q)}`;
  });
  const buttons = who.map(([a, n]) =>
    el(
      "button",
      {
        "aria-pressed": String(n === access),
        click: (e) => {
          access = n;
          buttons.forEach((b) => b.setAttribute("aria-pressed", b === e.currentTarget));
          paint();
        },
      },
      `${a.access} by ${a.instruction}`,
    ),
  );
  body.append(
    el(
      "p",
      {},
      named(c.name),
      ` holds ${c.reads} in shared memory: ${plural(c.stages, "stage")} of ${number(c.elements * c.bytes)} bytes, moved by ${c.moved_by}. `,
      `Elements of a row lie along ${c.index[contiguous]}, rows along ${others.join(", ") || "nothing"}; a row is ${number(c.row * c.bytes)} bytes`,
      c.row > c.extents[contiguous]
        ? `, of which ${number((c.row - c.extents[contiguous]) * c.bytes)} are padding`
        : "",
      c.swizzle
        ? `. It is swizzled over ${c.swizzle} bytes: 16-byte pieces change places within their line, so that a column is spread over the banks.`
        : ".",
    ),
    el(
      "p",
      { class: "dim" },
      "Colour: the bank, from dark (0) to light (31). A bank gives one word of 4 bytes at a time, so lanes that ask for two elements of one colour in different rows wait.",
      who.length ? " Orange: what warp 0 asks for in its first request by" : "",
    ),
    el("div", { class: "row" }, buttons),
    el("div", { class: "scroll" }, canvas),
    read,
  );
  paint();
}

const digits = (v) =>
  el(
    "div",
    { class: "chips" },
    v.digits.map((d) =>
      el(
        "span",
        { class: `chip ${kindOf({ at: d.unit || "unroll" })}`, "data-k": d.name, title: about(d.name) },
        d.name,
        el("small", {}, `${d.steps ?? "…"} × ${d.stride} of ${d.axis}`),
        el("small", {}, d.unit ? d.unit + (d.xor ? ` ^ ${d.xor}` : "") : "register"),
      ),
    ),
  );

if (D.values.length || D.copies.length)
  panel(
    "holds",
    "Who holds what",
    "The number of a row or column is taken apart into digits, a loop each. Digits on warps and lanes say which thread holds an element, the others which of its registers.",
    (body) => {
      const all = [
        ...D.values.map((v) => [v, drawValue, "value"]),
        ...D.copies.map((c) => [c, drawCopy, "copy in shared memory"]),
      ];
      const inner = el("div");
      const choose = (n) => {
        held = n;
        const [thing, draws, kind] = all[n];
        buttons.forEach((b, k) => b.setAttribute("aria-pressed", k === n));
        inner.replaceChildren(...(kind === "value" ? [digits(thing)] : []));
        draws(thing, inner);
      };
      const buttons = all.map(([thing, , kind], n) =>
        el(
          "button",
          { "data-k": thing.name, click: () => choose(n) },
          `${thing.name}: ${kind === "value" ? `value, ${thing.dtype}` : kind}`,
        ),
      );
      body.append(el("div", { class: "row" }, buttons), inner);
      choose(Math.min(held, all.length - 1));
    },
  );

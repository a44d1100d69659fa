// Panel 2: the loops after each directive, and why it is legal.
let step = 0;
let chooseStep = () => {};

// What is empty is left out of the data.
function whole(node) {
  node.at ??= "";
  node.inside ??= [];
  node.inside.forEach(whole);
}
D.steps.forEach((s) => whole(s.nest));

const KINDS = [
  ["time", "one after the other"],
  ["cta", "CTAs"],
  ["warp", "warps"],
  ["lane", "lanes, threads"],
  ["register", "expanded: registers, vectors"],
  ["tensor", "inside of a tensor core instruction"],
];
function kindOf(node) {
  const at = node.at.split(" ")[0];
  if (/^block/.test(at)) return "cta";
  if (/^(warp|warpgroup)\b/.test(at)) return "warp";
  if (/^(lane|thread)\b/.test(at)) return "lane";
  if (/^(unroll|vec|serpentine)/.test(at)) return "register";
  if (/^(mma|wgmma)/.test(at)) return "tensor";
  return "time";
}
const counts = (node) => {
  if (node.steps == null) return node.stride > 1 ? `tiles of ${node.stride}` : "all";
  return node.steps + (node.stride > 1 ? ` × ${node.stride}` : "");
};

// The lines of a nest, with their depth.
function lines(node, depth = 0, out = []) {
  const push = (text, parts) => out.push({ depth, text, node, parts });
  if (node.kind === "loop")
    push(`for ${node.name} ${counts(node)} ${node.at}`, [
      "for ",
      named(node.name),
      `: ${node.steps == null ? (node.stride > 1 ? `tiles of ${node.stride}` : "all points") : `${node.steps} steps${node.stride > 1 ? ` of ${node.stride}` : ""}`}`,
    ]);
  else if (node.kind === "stage")
    push(`copy ${node.name} ${node.at}`, [
      "copy ",
      linked(node.name),
      ` to ${node.at === "register" ? "registers" : node.at + " memory"}`,
    ]);
  else if (node.kind === "let")
    push(
      `let ${node.name} ${node.at}`,
      node.name ? ["let ", linked(node.name), node.at ? ` (${node.at})` : ""] : ["then"],
    );
  else push(node.name, linked(node.name));
  for (const inner of node.inside) lines(inner, depth + (node.kind === "let" && !node.name ? 0 : 1), out);
  return out;
}
// Which lines of two lists stand in both, in order (longest common subsequence).
function common(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const left = new Set(),
    right = new Set();
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      left.add(i++);
      right.add(j++);
    } else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  }
  return [left, right];
}
// The loops around the statement with the most of them.
function deepest(node, path = []) {
  if (node.kind === "loop") path = [...path, node];
  if (!node.inside.length) return path;
  return node.inside.map((inner) => deepest(inner, path)).reduce((a, b) => (b.length > a.length ? b : a));
}

function tree(title, list, kept, word) {
  return el(
    "div",
    {},
    el("h3", {}, title),
    el(
      "div",
      { class: "tree card" },
      list.map((line, n) => {
        const at =
          line.node.kind === "loop" && line.node.at
            ? el("span", { class: `at ${kindOf(line.node)}` }, line.node.at)
            : "";
        return el(
          "div",
          {
            class: [
              kept.has(n) ? "" : word,
              line.node.kind === "loop" && blamed(line.node.name) ? "blamed" : "",
            ].join(" "),
            style: `padding-left:${4 + line.depth * 12}px`,
          },
          line.parts,
          at,
        );
      }),
    ),
  );
}
// A loop that the refused directive or its error speaks of.
const blamed = (name) => D.refusal?.names.some((word) => word === name || word === name.split(".")[0]);
const chip = (node, changed) =>
  el(
    "span",
    {
      class: `chip ${kindOf(node)} ${changed ? "changed" : ""} ${blamed(node.name) ? "blamed" : ""}`,
      "data-k": node.name,
      title: about(node.name),
    },
    node.name,
    el("small", {}, counts(node)),
    node.at ? el("small", {}, node.at) : "",
  );

function detail(at) {
  const now = D.steps[at],
    before = at ? D.steps[at - 1] : now;
  const [a, b] = [lines(before.nest), lines(now.nest)];
  const [left, right] = common(
    a.map((l) => l.text),
    b.map((l) => l.text),
  );
  const same = a.length === left.size && b.length === right.size;
  const [loopsBefore, loopsNow] = [deepest(before.nest), deepest(now.nest)];
  const keys = (loops) => loops.map((l) => `${l.name} ${l.at}`);
  const [, stay] = common(keys(loopsBefore), keys(loopsNow));
  const out = el("div", {});
  const titles = {
    initial: "the kernel as loops: nothing is scheduled yet",
    defaults:
      "what holds where no directive says anything else: loops of one step go, outermost loops become CTAs, loops over registers are expanded",
  };
  out.append(
    el(
      "h3",
      {},
      now.directive ? el("code", {}, linked(now.directive)) : titles[now.phase],
      now.from ? el("span", { class: "tag" }, `inherited from ${now.from}`) : "",
    ),
  );
  out.append(
    el(
      "p",
      { class: "dim" },
      "The loops around the innermost statement, outermost first; 4 × 32 is 4 steps of 32 points. Framed: changed by this step.",
    ),
  );
  out.append(
    el(
      "div",
      { class: "chips" },
      loopsNow.map((loop, n) => chip(loop, at > 0 && !stay.has(n))),
    ),
  );
  const proof = el("div", { class: "card" }, el("h3", {}, "why it is legal"));
  if (now.facts.length)
    proof.append(
      el(
        "ul",
        { style: "margin:0;padding-left:18px" },
        now.facts.map((f) => el("li", {}, quoted(f))),
      ),
    );
  else
    proof.append(
      el(
        "p",
        { class: "dim" },
        now.directive ? "No condition of it needed a fact." : "No directive, nothing to prove.",
      ),
    );
  if (now.rules.length)
    proof.append(
      el("p", { class: "dim" }, "Rewrite rules: ", now.rules.map(([name, n]) => `${name} × ${n}`).join(", ")),
    );
  out.append(proof);
  if (at && same)
    out.append(el("p", { class: "dim" }, "The loops stay as they are: it adds a fact, which is below."));
  const trees =
    at && !same
      ? [tree("before", a, left, "removed"), tree("after", b, right, "added")]
      : [tree(at ? "the nest" : "loops", b, right, "added")];
  out.append(el("div", { class: trees.length > 1 ? "columns" : "" }, trees));
  const [, noted] = common(before.notes, now.notes);
  const fresh = now.notes.filter((_, n) => !noted.has(n) || !at);
  if (fresh.length)
    out.append(
      el("h3", {}, "what follows for layouts and facts"),
      el(
        "div",
        { class: "card mono" },
        fresh.map((line) => el("div", {}, linked(line))),
      ),
    );
  return out;
}

function refusal() {
  const r = D.refusal;
  const mistake = (m) =>
    el(
      "div",
      {},
      el("p", { class: "wrong" }, "error: ", quoted(m.message)),
      m.notes.map((note) => el("p", {}, "note: ", quoted(note))),
      m.help ? el("p", { class: "help" }, "help: ", quoted(m.help)) : "",
    );
  return el(
    "div",
    { class: "refusal" },
    el(
      "p",
      {},
      r.directive ? [el("b", {}, "Refused: "), el("code", {}, linked(r.directive))] : el("b", {}, "Refused"),
    ),
    r.mistakes.map(mistake),
    el(
      "p",
      { class: "dim" },
      "Loops that they speak of are underlined below. ",
      r.complete
        ? "All directives apply; the mistake shows in the complete schedule. The nest below is what it would have run."
        : "The steps below are those before it: the last is the nest that it does not apply to.",
    ),
  );
}

panel(
  "derivation",
  "Derivation",
  "Each directive rewrites the loops, and is proved to leave the result the same. Choose a step; the arrow keys go from one to the next.",
  (body) => {
    if (D.refusal) body.append(refusal());
    const used = new Set(
      D.steps
        .flatMap((s) => lines(s.nest))
        .filter((l) => l.node.kind === "loop")
        .map((l) => kindOf(l.node)),
    );
    body.append(
      el(
        "div",
        { class: "legend" },
        KINDS.filter(([k]) => used.has(k)).map(([k, text]) => el("span", {}, el("i", { class: k }), text)),
      ),
    );
    const list = el("div", { class: "list", role: "listbox", tabindex: 0, "aria-label": "Directives" });
    const right = el("div", { id: "step", "aria-live": "polite" });
    const option = (s, n) =>
      el(
        "div",
        { role: "option", id: `step-${n}`, class: s.from ? "inherited" : null, click: () => chooseStep(n) },
        s.directive || `(${s.phase})`,
      );
    list.append(...D.steps.map(option));
    if (D.refusal?.at != null && D.refusal.at + 1 >= D.steps.length)
      list.append(
        el("div", { role: "option", class: "refused", "aria-disabled": "true" }, `✗ ${D.refusal.directive}`),
      );
    chooseStep = (n) => {
      step = Math.max(0, Math.min(D.steps.length - 1, n));
      [...list.children].forEach((e, k) => e.setAttribute("aria-selected", k === step));
      list.setAttribute("aria-activedescendant", `step-${step}`);
      const chosen = list.children[step];
      list.scrollTop = Math.max(0, chosen.offsetTop - list.offsetTop - list.clientHeight / 2);
      right.replaceChildren(detail(step));
    };
    list.addEventListener(
      "keydown",
      arrows((dx, dy) => chooseStep(step + dx + dy)),
    );
    body.append(el("div", { class: "steps" }, list, right));
    chooseStep(step || first());
  },
);
// The step shown first: the one that changes most lines, those of the schedule itself before inherited ones; or where it is refused.
function first() {
  if (D.refusal) return D.steps.length - 1;
  const changes = D.steps.map((s, n) => {
    if (!n || !s.directive) return 0;
    const [a, b] = [D.steps[n - 1], s].map((x) => lines(x.nest).map((l) => l.text)),
      [left, right] = common(a, b);
    return (a.length - left.size + b.length - right.size) * (s.from ? 1 : 4);
  });
  return Math.max(1, changes.lastIndexOf(Math.max(...changes)));
}

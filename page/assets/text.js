// Panel 1: kernel and schedule beside one another.
panel(
  "text",
  "Kernel and schedule",
  "The kernel says what is computed, the schedule how. Grey directives are inherited, from the schedule named beside them. Choose one to see what it does to the loops.",
  (body) => {
    const kernel = el(
      "div",
      { class: "card" },
      el("h3", {}, "kernel, in the compiler's form"),
      el(
        "pre",
        {},
        D.text.kernel.map((line) => [linked(line), "\n"]),
      ),
    );
    const shapes = Object.entries(D.head.dims).map(([dim, n]) => `${dim} = ${number(n)}`);
    if (shapes.length)
      kernel.append(el("h3", {}, "sizes of this run"), el("div", { class: "mono" }, shapes.join(", ")));
    if (D.head.assumptions.length)
      kernel.append(
        el(
          "h3",
          {},
          "what the variant ",
          el("code", {}, D.head.variant),
          " takes for granted of its arguments",
        ),
        el("div", { class: "mono" }, D.head.assumptions.join(" · ")),
      );
    if (D.text.parents.length)
      kernel.append(
        el("h3", {}, "directives are inherited from"),
        el("div", { class: "mono" }, D.text.parents.join(" · ")),
      );
    const list = el(
      "div",
      { class: "card" },
      el("h3", {}, "schedule: all directives that hold, in the order in which they apply"),
    );
    let phase = "";
    for (const line of D.text.directives) {
      if (line.phase !== phase) list.append(el("div", { class: "phase" }, (phase = line.phase)));
      const kind = line.refused ? "refused" : line.from ? "inherited" : "own";
      const open = () => {
        if (line.step != null) chooseStep(line.step);
        show("derivation");
      };
      list.append(
        el(
          "button",
          { class: `directive ${kind}`, click: open },
          linked(line.text + ";"),
          line.from ? el("span", { class: "tag" }, line.from) : "",
          line.refused ? el("span", { class: "tag" }, "refused") : "",
        ),
      );
    }
    body.append(el("div", { class: "columns" }, kernel, list));
  },
);

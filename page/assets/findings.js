// Panel 0: what to look at first.
const LEVELS = { wrong: "✗ wrong", slow: "▲ slow", note: "● note", good: "✓ good" };
panel(
  "findings",
  "Findings",
  "What to look at first. Hover a name or a loop to see it in every panel; click to keep it, Escape to let go.",
  (body) => {
    const item = (finding) => {
      const lines = finding.lines.length
        ? ` PTX ${finding.lines.length > 1 ? "lines" : "line"} ${finding.lines.slice(0, 4).join(", ")}${finding.lines.length > 4 ? ` and ${finding.lines.length - 4} more` : ""}.`
        : "";
      const open = () => {
        if (finding.access != null) chooseAccess(finding.access);
        show(finding.panel);
      };
      return el(
        "li",
        { class: finding.level },
        el("span", { class: finding.level }, LEVELS[finding.level]),
        el(
          "span",
          {},
          quoted(finding.text),
          el("small", {}, quoted(finding.why), lines, finding.source ? ` Source: ${finding.source}.` : ""),
        ),
        panels.some((p) => p.id === finding.panel) ? el("button", { click: open }, "show") : "",
      );
    };
    body.append(el("ul", { class: "findings" }, D.findings.map(item)));
  },
);

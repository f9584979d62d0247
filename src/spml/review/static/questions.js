// Questions about the labels of a sample, each with its answers.

import { make, percent } from "./dom.js";

export const ANSWERS = [
  { answer: "yes", text: "Yes", mark: "✓", key: "y" },
  { answer: "no", text: "No", mark: "✗", key: "n" },
  { answer: "unsure", text: "Unsure", mark: "?", key: "u" },
];
export const STATES = { yes: "yes", no: "no", unsure: "unsure", conflict: "in conflict", undecided: "undecided" };

export const chance = (probability) => (probability > 0.99 ? "over 99 %" : percent(probability));

// `asked` is the question that keys answer, and `wrong` whether the label is a given one that may be wrong.
export function question(each, index, { name, reviewer, asked, wrong }) {
  const buttons = ANSWERS.map(({ answer, text, mark, key }) => {
    const mine = each.answers.some((one) => one.reviewer === reviewer && one.answer === answer);
    const hint = asked ? [make("kbd", { textContent: key, aria: { hidden: true } })] : [];
    return make(
      "button",
      { type: "button", dataset: { answer, question: index }, aria: { pressed: mine } },
      make("span", { textContent: mark, aria: { hidden: true } }),
      ` ${text} `,
      ...hint,
    );
  });
  const p = each.probability;
  const sure = p === null ? "not on this list" : wrong ? `confidence ${percent(p)}` : chance(p);
  const named = each.by_name && `, ${each.by_name === "yes" ? "and" : "but not"} by its name`;
  const others = each.answers.filter((one) => one.reviewer !== reviewer);
  const said = others.map((one) => `${one.reviewer} said ${one.answer}`).join(", ");
  const item = make(
    "li",
    { className: "suggestion", dataset: { status: each.status } },
    make(
      "div",
      { className: "what" },
      make("span", { className: "label", textContent: name }),
      make("span", { className: "probability", textContent: sure + named }),
    ),
  );
  if (p !== null) {
    const fill = make("span", { className: "fill" });
    fill.style.width = percent(p).replace(" ", "");
    item.append(make("div", { className: "meter", aria: { hidden: true } }, fill));
  }
  const group = { className: "answers", role: "group", aria: { label: `${name}, ${STATES[each.status]}` } };
  item.append(make("div", group, ...buttons));
  if (said) item.append(make("p", { className: "others", textContent: said }));
  if (asked) item.setAttribute("aria-current", "true");
  return item;
}

// The numbers about a list: how much is decided, how much of it is right, and how much is still to be found.

import { $, number, percent, plural } from "./dom.js";

const WORDS = {
  missing: { title: "Missing labels", found: "Missing labels found", share: "Right in the whole list" },
  wrong: { title: "Given labels that may be wrong", found: "Mistakes found", share: "Wrong in the whole list" },
};

export const decidedOf = (progress) => progress.yes + progress.no + progress.unsure + progress.conflicts;

export function showNumbers(progress, list, about) {
  const { listed, hits, unsure, conflicts, checks, precision, expected } = progress;
  const words = WORDS[list];
  const decided = decidedOf(progress);
  const done = decided === listed;
  $("title").textContent = words.title;
  $("found-label").textContent = words.found;
  $("precision-label").textContent = words.share;
  $("decided").textContent = `${number(decided)} of ${number(listed)}`;
  $("bar").max = Math.max(1, listed);
  $("bar").value = decided;
  $("yes").textContent = number(hits);
  const leftOut = [
    decided && `of ${number(decided)} decided`,
    unsure && `${unsure} unsure`,
    conflicts && plural(conflicts, "conflict"),
  ].filter(Boolean);
  $("left-out").textContent = leftOut.join(", ");
  $("precision").textContent = precision ? percent(precision.value) : "–";
  $("precision-note").textContent = !precision
    ? `after ${about.least_checks} random checks; ${checks} so far`
    : done
      ? "all entries decided"
      : `${percent(precision.low)} to ${percent(precision.high)}, from ${plural(checks, "random check")}`;
  const whole = (value) => number(Math.round(value));
  $("expected").textContent = done ? "0" : expected ? `about ${whole(expected.value)}` : "–";
  $("expected-note").textContent = done
    ? ""
    : precision
      ? `${whole(expected.low)} to ${whole(expected.high)}`
      : expected
        ? "if the probabilities are right"
        : "known with the share of mistakes";
  document.title = `${listed ? percent(decided / listed) : ""} · ${words.title.toLowerCase()} in ${about.name}`;
}

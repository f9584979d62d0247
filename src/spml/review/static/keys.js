// Keys of a page, and its help.

import { $ } from "./dom.js";

// `keys` act always, `letters` unless a person turned them off.
export function listen(keys, letters) {
  document.addEventListener("keydown", (event) => {
    // The focus stays in the help for a moment after it has been closed: keys are for the page again by then.
    const typing = event.target.closest("select, input:not([type=checkbox]), dialog")?.checkVisibility();
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || typing) return;
    const single = $("keys").checked ? letters[event.key.toLowerCase()] : undefined;
    const action = keys[event.key] ?? single;
    if (!action) return;
    event.preventDefault();
    action();
  });

  // A person who speaks to the machine, or types with one switch, turns single keys off for good.
  $("keys").checked = localStorage.getItem("single-keys") !== "off";
  $("keys").addEventListener("change", ({ target }) => {
    localStorage.setItem("single-keys", target.checked ? "on" : "off");
  });
  $("open-filters").addEventListener("click", ({ currentTarget }) => {
    const open = document.querySelector("header").classList.toggle("open");
    currentTarget.setAttribute("aria-expanded", open);
  });
  $("open-help").addEventListener("click", () => $("help").showModal());
  $("filters").addEventListener("submit", (event) => event.preventDefault());
}

// After a choice by mouse, letters are answers again, not options of the list.
export function release(control) {
  if (!control.matches(":focus-visible")) control.blur();
}

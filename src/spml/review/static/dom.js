// Elements, phrases, and messages to the reader, for both pages.

import * as api from "./api.js";

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const { dataset, aria, role, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, dataset);
  if (role) element.setAttribute("role", role);
  for (const [name, value] of Object.entries(aria ?? {})) element.setAttribute(`aria-${name}`, value);
  element.append(...children);
  return element;
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const number = (value) => value.toLocaleString("en");
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function say(text) {
  $("status").textContent = text;
}

export function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
  if (error.unreachable) waitForServer(error.message);
}

// The message goes once the server answers again, also if nobody does anything in the meantime.
function waitForServer(message) {
  setTimeout(async () => {
    const answers = await api.about().then(() => true, (error) => !error.unreachable);
    if ($("problem").hidden || $("problem").textContent !== message) return;
    if (!answers) return waitForServer(message);
    $("problem").hidden = true;
    say("The server answers again. Your last answer was not saved: give it again.");
  }, 2000);
}

// On a screen that shows one thing at a time, the next sample begins at its top.
export function beginAtTop(section) {
  const first = section.getBoundingClientRect().top + scrollY;
  if (matchMedia("(max-width: 59.99rem)").matches && scrollY > first) scrollTo(0, first);
}

export const tags = (names) => names.map((name) => make("span", { className: "tag", textContent: name }));

// What to type once the answers are given, each command with a button that copies it.
export function showCommands(list, commands) {
  const items = commands.map((text) => {
    const copy = make("button", { type: "button", className: "quiet", textContent: "Copy" });
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text).then(
        () => say("Copied."),
        () => say("The browser does not allow copying. Select the command instead."),
      );
    });
    return make("li", {}, make("code", { textContent: text }), copy);
  });
  list.replaceChildren(...items);
}

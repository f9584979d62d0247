// Elements, phrases, and messages to the reader, for both pages.

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
}

export const tags = (names) => names.map((name) => make("span", { className: "tag", textContent: name }));

// What to type once the answers are given, each command with a button that copies it.
export function showCommands(list, commands) {
  const items = commands.map((text) => {
    const copy = make("button", { type: "button", className: "quiet", textContent: "Copy" });
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text).then(
        () => say("Copied."),
        () => say("The browser does not let the page copy. Select the command instead."),
      );
    });
    return make("li", {}, make("code", { textContent: text }), copy);
  });
  list.replaceChildren(...items);
}

// Shows openapi.json. Nothing of it is put into the page as HTML.

import { element, id } from "./elements.js";

const here = (path) => new URL(`.${path}`, location.href).href;
const described = await (await fetch("openapi.json")).json();
id("server").textContent = here("/");
id("version").textContent = `${described.info.title} ${described.info.version}`;

function table(caption, header, rows) {
  const made = element("table");
  made.append(element("caption", caption));
  const line = (cells) => {
    const row = element("tr");
    row.append(...cells);
    return row;
  };
  made.append(line(header.map((text) => element("th", text, { scope: "col" }))));
  for (const [first, ...rest] of rows) {
    made.append(line([element("th", first, { scope: "row" }), ...rest.map((text) => element("td", text))]));
  }
  return made;
}

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).filter((type) => type !== "null").join(" or ");
  return schema.enum ? schema.enum.join(", ") : schema.type;
}

function exampleOf(schema) {
  if (schema.type === "object") {
    return `{${Object.entries(schema.properties).map(([name, each]) => `"${name}": ${exampleOf(each)}`).join(", ")}}`;
  }
  if (schema.type === "string") return '"..."';
  if (schema.type !== "array") return "0.5";
  const count = schema.minItems ?? 1;
  const items = Array(Math.min(count, 4)).fill(exampleOf(schema.items));
  return `[${items.join(", ")}${count > 4 ? `, ... (${count} in all)` : ""}]`;
}

// The arguments with which curl sends a body of this type.
function sent(type, schema) {
  if (type === "multipart/form-data") {
    return Object.keys(schema.properties).map((name) => `-F ${name}=@one.jpg -F ${name}=@two.jpg`).join(" ");
  }
  const data = type === "application/json" ? "-d @body.json" : "--data-binary @photo.jpg";
  return `-H 'Content-Type: ${type.replace("*", "jpeg")}' ${data}`;
}

function code(text) {
  const made = element("pre", "", { tabindex: 0 });
  made.append(element("code", text));
  return made;
}

function address(path, method, about) {
  const made = element("section");
  made.append(element("h2", `${method.toUpperCase()} ${path}`), element("p", `${about.summary}.`));
  if (about.parameters) {
    made.append(table("Parameters in the address", ["name", "values", "meaning"], about.parameters.map(({ name, schema, description }) =>
      [name, typeOf(schema) + ("default" in schema ? `; default: ${schema.default}` : ""), description])));
  }
  const bodies = Object.entries(about.requestBody?.content ?? {});
  for (const [type, { schema }] of bodies) {
    made.append(element("p", `Body: ${type}`), code(`curl ${sent(type, schema)} ${here(path)}`));
    if (type === "application/json") made.append(element("p", "body.json:"), code(exampleOf(schema)));
  }
  if (!bodies.length) made.append(code(`curl ${here(path)}`));
  const answers = Object.entries(about.responses);
  made.append(table("Answers", ["status", "meaning"], answers.map(([status, each]) => [status, each.description])));
  for (const [status, each] of answers) {
    const example = each.content?.["application/json"]?.example;
    if (example && status === "200") made.append(code(JSON.stringify(example, null, 1)));
  }
  return made;
}

for (const [path, methods] of Object.entries(described.paths)) {
  for (const [method, about] of Object.entries(methods)) id("addresses").append(address(path, method, about));
}
document.documentElement.dataset.ready = "yes";

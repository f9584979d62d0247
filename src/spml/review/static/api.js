// Requests to the server. All addresses are relative, so that they begin with the secret of the page.

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    const text = "Not saved: the server does not answer. Earlier answers are safe. If this continues, start spml review again, and open the address that it prints.";
    throw Object.assign(new Error(text), { unreachable: true });
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.error ?? `The server answered with error ${response.status}.`);
  return body;
}

const query = (values) => new URLSearchParams(values).toString();

export const about = () => request("api/about");
export const queue = (selection) => request(`api/queue?${query(selection)}`);

export function cards(samples, selection) {
  const wanted = samples.map((sample) => ["samples", sample]);
  return request(`api/cards?${query([...wanted, ...Object.entries(selection)])}`);
}

// With its referrer, which only this server gets, a request has the origin of the page in every browser. The
// server takes no answer from another one.
const post = (path, options) => request(path, { method: "POST", referrerPolicy: "same-origin", ...options });
const send = (path, body) =>
  post(path, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// -- lists of an audit -------------------------------------------------------------------------------------

export const decideAll = (samples, column, answer, selection) =>
  send(`api/decide?${query(selection)}`, { samples, column, answer });
export const undo = (selection) => post(`api/undo?${query(selection)}`);

// -- a sample to label in full -----------------------------------------------------------------------------

export const decide = (sample, column, answer) => send("api/decide", { sample, column, answer });
export const complete = (sample) => send("api/complete", { sample, complete: true });
export const use = () => post("api/use");

// Why a picture can't be shown.
export const problemOf = (address) => request(address).then(() => "", (error) => error.message);

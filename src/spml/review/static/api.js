// Requests to the server. All addresses are relative, so that they begin with the secret of the page.

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(
      "Not saved: the server does not answer. Earlier answers are safe. Start spml review again, and open the address that it prints.",
    );
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.error ?? `The server answered with error ${response.status}.`);
  return body;
}

const query = (values) => new URLSearchParams(values).toString();

export const about = () => request("api/about");
export const queue = (selection, show) => request(`api/queue?${query({ ...selection, show })}`);

export function cards(samples, selection) {
  const wanted = samples.map((sample) => ["samples", sample]);
  return request(`api/cards?${query([...wanted, ...Object.entries(selection)])}`);
}

export function decide(sample, column, answer, selection) {
  return request(`api/decide?${query(selection)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ sample, column, answer }),
  });
}

export const undo = (selection) => request(`api/undo?${query(selection)}`, { method: "POST" });

// Why a picture can't be shown.
export const problemOf = (address) => request(address).then(() => "", (error) => error.message);

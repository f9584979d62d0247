// Cards by sample, as far as they have been loaded.

const BATCH = 100; // cards that are asked for at once

export class Cards extends Map {
  // `ask(samples)` gives the cards of samples. A changed filter takes new `Cards`: what is still under way for the
  // earlier ones does not reach them.
  constructor(ask) {
    super();
    this.ask = ask;
  }

  async load(wanted) {
    const missing = [...new Set(wanted)].filter((sample) => sample !== undefined && !this.has(sample));
    for (let start = 0; start < missing.length; start += BATCH) {
      for (const each of await this.ask(missing.slice(start, start + BATCH))) this.set(each.sample, each);
    }
  }
}

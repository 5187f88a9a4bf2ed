// A run on this machine's kernel: what `trunkline lab watch` measures of it. It has what a Simulation has, as far as a page looks.

const NOTHING = new Float64Array(0);

export class Measured {
  /** @param described what a simulation of the same experiment has */
  constructor(described) {
    this.described = described;
    this.now = 0;
    this.values = [];
  }

  /** Takes what was measured at a time in seconds, by names of series. */
  take({ at, values }) {
    this.now = at;
    this.values = Float64Array.from(this.described.overview, (name) => values[name] ?? NaN);
  }

  read() {
    return this.values;
  }

  /** Time is the machine's. */
  runUntil() {}

  /** Nobody sees a packet on a link of the kernel's. */
  packets() {
    return NOTHING;
  }
}

// A run of the simulator in this page or in node. `crates/web/src/abi.rs` is the other side.

/** Compiles the module: of its bytes, or of a response or the promise of one. */
export async function compile(source) {
  const given = await source;
  if (typeof Response !== "undefined" && given instanceof Response) {
    return WebAssembly.compile(await given.arrayBuffer());
  }
  return WebAssembly.compile(given);
}

/** One run of an experiment. What is wrong is thrown as an Error whose text says what, where and what is allowed. */
export class Simulation {
  /**
   * @param module what `compile` gave
   * @param {string} text the experiment, as TOML
   * @param {{point?: number, seed?: number}} options a point of its sweep by its place, and a seed
   */
  static async open(module, text, { point = 0, seed = 1 } = {}) {
    const instance = await WebAssembly.instantiate(module, {});
    return new Simulation(instance.exports, text, point, seed);
  }

  constructor(exports, text, point, seed) {
    this.exports = exports;
    this.write(text);
    /** Title, duration, points, nodes, links, traffic, trunks, and the names of series that show it at a glance. */
    this.described = JSON.parse(this.answer(exports.open(point, seed)));
  }

  /** Adds values to those that `read` gives, by the names of series. */
  watch(names) {
    for (const name of names) {
      this.write(name);
      this.answer(this.exports.watch());
    }
  }

  /** Seconds since the start. */
  get now() {
    return this.exports.now();
  }

  /** Runs on to a time in seconds. */
  runUntil(seconds) {
    this.answer(this.exports.run_until(seconds));
  }

  /**
   * The values that are watched, in base units; NaN is none. What is counted, such as a goodput, is of the time since the last reading.
   * The array is a view of the simulator's memory: copy what is to stay.
   */
  read() {
    const count = this.exports.read();
    return new Float64Array(this.exports.memory.buffer, this.exports.values(), count);
  }

  /**
   * The packets on one way of a link, three values each: the part of the delay that is behind it (below 0 while it is being sent), and the
   * places of the nodes that it is from and to. A view, as that of `read`.
   */
  packets(link) {
    this.write(link);
    const count = this.exports.packets();
    return new Float64Array(this.exports.memory.buffer, this.exports.values(), 3 * count);
  }

  /** Changes one way of a link, `wan` or `wan.back`: its rate in bit/s, its delay in seconds, the share of packets that it loses. */
  setLink(link, { rate, delay, loss }) {
    for (const [set, value] of [["set_rate", rate], ["set_delay", delay], ["set_loss", loss]]) {
      if (value !== undefined) {
        this.write(link);
        this.answer(this.exports[set](value));
      }
    }
  }

  /** Changes the weight of a class of one way of a trunk, `site` or `site.back`, as a reload of a gateway does. */
  setWeight(trunk, name, weight) {
    this.write(`${trunk}\n${name}`);
    this.answer(this.exports.set_weight(weight));
  }

  /** A fingerprint of all that has happened: that of `trunkline lab run`, if nothing was changed. */
  digest() {
    return this.answer(this.exports.digest());
  }

  /** Runs to the end, of a run that has not begun, and gives its metrics by name. */
  measure() {
    return JSON.parse(this.answer(this.exports.measure()));
  }

  write(text) {
    const bytes = new TextEncoder().encode(text);
    const place = this.exports.input(bytes.length);
    new Uint8Array(this.exports.memory.buffer, place, bytes.length).set(bytes);
  }

  answer(isRight) {
    const bytes = new Uint8Array(this.exports.memory.buffer, this.exports.output(), this.exports.output_length());
    const text = new TextDecoder().decode(bytes);
    if (isRight !== 1) throw new Error(text);
    return text;
  }
}

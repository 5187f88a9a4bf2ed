// Draws the plots of a report and fills its list of metrics. Everything is in the page: data as JSON, ECharts before this.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  // After Okabe and Ito (2008): told apart with any colour vision, 3:1 or more against the card.
  const THEMES = {
    light: {
      colours: ["#0072b2", "#d55e00", "#00835f", "#aa4499", "#a06a00", "#2f8fd0", "#444f5c", "#882255"],
      ink: "#17202b", soft: "#566372", rule: "#dfe4ea", strong: "#aeb8c4", card: "#ffffff",
    },
    dark: {
      colours: ["#56b4e9", "#ff8c42", "#2fd0a0", "#e48fc4", "#f0c04a", "#9db4ff", "#c3ccd6", "#ff7a9c"],
      ink: "#e8edf3", soft: "#9fabb9", rule: "#2c3743", strong: "#55616f", card: "#19212a",
    },
  };
  const DASHES = ["solid", [7, 4], [2, 3], [9, 3, 2, 3]];
  const SYMBOLS = ["circle", "rect", "triangle", "path://M0 0L10 0L5 9Z"];
  const MAX_MARKS = 40;
  const MAX_WHISKERS = 16;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  let printing = false;
  const theme = () => (dark.matches && !printing ? THEMES.dark : THEMES.light);

  const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const raised = (power) => [...String(power)].map((c) => (c === "-" ? "⁻" : SUPERSCRIPT[c])).join("");
  function grouped(text) {
    const [whole, rest] = text.replace("-", "−").split(".");
    const spaced = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
    return rest === undefined ? spaced : `${spaced}.${rest}`;
  }
  function show(value, digits = 3) {
    if (value === null || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e12) {
      const [digit, power] = value.toExponential(2).split("e");
      return `${digit.replace("-", "−")} × 10${raised(Number(power))}`;
    }
    if (Number.isInteger(value)) return grouped(String(value));
    const before = Math.floor(Math.log10(size)) + 1;
    return grouped(value.toFixed(Math.max(0, digits - before)));
  }
  // As somebody else has it: all of its digits.
  const exact = (value) => grouped(String(Number(value.toPrecision(6))));
  // Half of an interval to the digits of its mean.
  function half(value, mean) {
    const places = (show(mean).split(".")[1] ?? "").length;
    const last = 10 ** -places;
    return value < last / 2 ? `<${last.toFixed(places)}` : grouped(value.toFixed(places));
  }
  // Ticks lie at round values; only what rounding leaves behind is cut.
  function tick(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) {
      const power = Math.floor(Math.log10(size) + 1e-9);
      const digit = Number((value / 10 ** power).toPrecision(3));
      return `${digit === 1 ? "" : `${digit} × `}10${raised(power)}`;
    }
    return grouped(String(Number(value.toPrecision(6))));
  }

  // Where a name may be broken: behind a space or a hyphen.
  const BREAKS = /(?<=[ -])/;
  function wrapped(name, width) {
    const lines = [""];
    for (const word of name.split(BREAKS)) {
      if (lines.at(-1) && (lines.at(-1) + word).trimEnd().length > width) lines.push("");
      lines.push(lines.pop() + word);
    }
    return lines.map((line) => line.trimEnd()).join("\n");
  }

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  class Plot {
    constructor(box, chart) {
      this.box = box;
      this.chart = chart;
      this.hidden = new Set();
      this.canvas = box.querySelector(".plot");
      this.dashed = chart.lines.some((line) => line.dash > 0);
      this.handle = echarts.init(this.canvas, null, { renderer: "svg" });
      this.draw();
      new ResizeObserver(() => {
        if (!printing && this.canvas.clientWidth !== this.width) this.draw();
      }).observe(this.canvas);
    }

    draw() {
      this.width = printing ? 680 : this.canvas.clientWidth;
      this.handle.resize({ width: this.width, height: this.canvas.clientHeight });
      this.handle.setOption(this.option(), { notMerge: true });
      this.legend();
    }

    visible() {
      return this.chart.lines.filter((_, index) => !this.hidden.has(index));
    }

    colour(line) {
      return theme().colours[line.colour];
    }

    symbol(line) {
      return SYMBOLS[(this.dashed ? line.dash : line.colour) % SYMBOLS.length];
    }

    // A line on which others lie is wider and paler than they are, and so are its marks.
    wider(line) {
      return 5 * (line.beneath ?? 0);
    }

    pale(line) {
      return line.beneath ? 0.4 : 1;
    }

    // Along time, and not along an axis of a sweep.
    timed() {
      return this.chart.kind === "series" || this.chart.kind === "points";
    }

    filled() {
      return this.chart.kind === "bar" || this.chart.kind === "histogram";
    }

    legend() {
      const { lines, legend } = this.chart;
      // A line that is alone is what the axis says.
      const entries = (lines.length === 1 && !lines[0].paper ? [] : lines).map((line, index) => {
        const label = [this.swatch(line), element("span", {}, legend ? line.short : line.name)];
        if (lines.length === 1) return element("span", {}, ...label);
        const button = element("button", { type: "button", "aria-pressed": String(!this.hidden.has(index)) }, ...label);
        button.addEventListener("click", () => {
          if (!this.hidden.delete(index)) this.hidden.add(index);
          this.draw();
          this.box.querySelectorAll(".legend button")[index].focus();
        });
        return button;
      });
      if (lines.some((line) => line.paper)) {
        const level = `<path d="M0 7h22" stroke="currentColor" stroke-width="1.5" stroke-dasharray="5 3"/>`;
        const point = `<path d="M11 2l5 5-5 5-5-5z" fill="none" stroke="currentColor" stroke-width="2"/>`;
        const mark = this.svg(this.chart.kind === "points" ? level : point);
        entries.push(element("span", {}, mark, "the paper"));
      }
      if (legend && entries.length) entries.unshift(element("span", { class: "shared" }, `${legend}:`));
      this.box.querySelector(".legend").replaceChildren(...entries);
    }

    svg(inside) {
      const holder = element("span");
      holder.innerHTML = `<svg width="22" height="14" viewBox="0 0 22 14" aria-hidden="true">${inside}</svg>`;
      return holder.firstChild;
    }

    swatch(line) {
      const colour = this.colour(line);
      if (this.filled()) {
        return this.svg(`<rect x="4" y="1" width="14" height="12" rx="2" fill="${colour}" fill-opacity="${this.opacity(line)}" stroke="${colour}"/>`);
      }
      const dash = DASHES[line.dash];
      const mark = {
        circle: `<circle cx="11" cy="7" r="3.5" fill="${colour}"/>`,
        rect: `<rect x="7.5" y="3.5" width="7" height="7" fill="${colour}"/>`,
        triangle: `<path d="M11 3l4.2 7.5H6.8z" fill="${colour}"/>`,
      }[this.symbol(line)] ?? `<path d="M6.8 3.5h8.4L11 11z" fill="${colour}"/>`;
      const dashes = dash === "solid" ? "" : `stroke-dasharray="${dash.join(" ")}"`;
      const stroke = `<path d="M0 7h22" stroke="${colour}" stroke-width="${Math.min(12, 2 + this.wider(line))}" stroke-opacity="${this.pale(line)}" ${dashes}/>`;
      return this.svg(stroke + (this.chart.kind === "series" ? "" : mark));
    }

    opacity(line) {
      return this.chart.kind === "histogram" ? 0.3 : [1, 0.55, 0.3, 0.15][line.dash];
    }

    option() {
      const { chart } = this;
      const colours = theme();
      return {
        animation: false,
        textStyle: { fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", color: colours.soft },
        grid: { left: 6, right: 14, top: 12, bottom: 6 },
        xAxis: this.along(chart.x, true),
        yAxis: this.along(chart.y, false),
        tooltip: {
          trigger: "axis",
          confine: true,
          transitionDuration: 0,
          backgroundColor: colours.card,
          borderColor: colours.strong,
          textStyle: { color: colours.ink },
          axisPointer: { type: chart.kind === "bar" ? "shadow" : "line", lineStyle: { color: colours.strong }, shadowStyle: { color: colours.strong, opacity: 0.2 } },
          formatter: (found) => this.tip(found),
        },
        series: this.filled() ? this.bars() : this.lines(),
      };
    }

    along(axis, across) {
      const colours = theme();
      const made = {
        type: axis.log ? "log" : "value",
        axisLine: { show: across, lineStyle: { color: colours.strong } },
        axisTick: { show: across, lineStyle: { color: colours.strong } },
        axisLabel: { color: colours.soft, fontSize: 12, lineHeight: 15, formatter: tick, hideOverlap: true },
        splitLine: { show: !across, lineStyle: { color: colours.rule } },
        minorTick: { show: axis.log && across, splitNumber: 9 },
      };
      if (axis.names) {
        made.type = "category";
        made.data = axis.names.map(String);
        made.axisTick.alignWithLabel = true;
        made.axisLabel = { ...made.axisLabel, formatter: undefined, ...this.naming(axis.names.map(String)) };
        made.boundaryGap = true;
      } else if (across) {
        const xs = this.chart.lines.flatMap((line) => line.points.map((dot) => dot[0]));
        const [min, max] = [Math.min(...xs), Math.max(...xs)];
        if (this.chart.kind === "histogram") {
          [made.min, made.max] = [min, max];
          // Bins seldom begin at a round value: a label there would lie upon the next one.
          Object.assign(made.axisLabel, { showMinLabel: false, showMaxLabel: false });
          if (Number((min / (max - min)).toFixed(6)) % 0.05 === 0) made.axisLabel.showMinLabel = true;
        } else if (this.timed() && !axis.log) {
          [made.min, made.max] = [min >= 0 && min < 0.05 * max ? 0 : min, max];
          made.axisLabel.showMaxLabel = Number.isInteger(max) && max % 10 === 0;
          made.axisLabel.showMinLabel = Number.isInteger(made.min);
        } else if (axis.log) {
          made.min = min / 1.15;
          made.max = max * 1.15;
          Object.assign(made.axisLabel, { showMinLabel: false, showMaxLabel: false });
        } else if (min > 0 && min > 0.4 * max) {
          made.scale = true;
        }
        if (made.min === made.max) delete made.min, delete made.max;
        if (axis.log) this.decades(made, max / min);
      } else if (axis.log && axis.top) {
        made.max = axis.top;
      } else if (axis.log) {
        const ys = this.visible().flatMap((line) => [...line.points, ...(line.paper ?? [])].flatMap((dot) => dot.slice(1, 4))).filter((y) => y > 0);
        if (ys.length) this.decades(made, Math.max(...ys) / Math.min(...ys), ys);
      } else {
        // An interval that is many times its value runs off the plot rather than flatten it.
        const dots = this.visible().flatMap((line) => [...line.points, ...(line.paper ?? [])]);
        const highest = Math.max(0, ...dots.map((dot) => dot[1] ?? 0));
        const reach = Math.max(0, ...dots.map((dot) => dot[3] ?? 0));
        const lowest = Math.min(0, ...dots.map((dot) => Math.min(dot[1] ?? 0, dot[2] ?? 0)));
        if (axis.top) {
          const step = [1, 2, 2.5, 5, 10].map((digit) => digit * 10 ** Math.floor(Math.log10(axis.top / 5))).find((size) => size * 5 >= axis.top * 0.999);
          made.interval = step;
          made.max = Math.ceil(axis.top / step - 1e-6) * step;
        } else if (lowest === 0 && highest > 0 && reach > 2.5 * highest) {
          const step = 10 ** Math.floor(Math.log10(highest));
          made.max = Math.ceil((1.6 * highest) / step) * step;
        }
      }
      return made;
    }

    // A logarithmic axis over less than a decade or two needs marks within it; across there is room for more of them.
    decades(made, ratio, ys) {
      if (ratio >= (ys ? 30 : 300)) return;
      if (ys) {
        made.min = Math.min(...ys) / 1.1;
        made.max = Math.max(...ys) * 1.1;
      }
      const [low, high] = [made.min, made.max];
      const values = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        for (const digit of ratio < 5 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : [1, 2, 5]) {
          const value = digit * 10 ** power;
          if (value >= low && value <= high) values.push(value);
        }
      }
      Object.assign(made.axisLabel, { customValues: values, showMinLabel: undefined, showMaxLabel: undefined });
      made.axisTick.customValues = values;
      made.minorTick.show = false;
    }

    // Names side by side if there is room, then broken into lines, then aslant.
    naming(names) {
      const slot = (this.width - 70) / names.length;
      const length = (text) => text.length * 6.9;
      const longest = Math.max(...names.map((name) => length(String(name))));
      if (longest <= slot - 8) return { interval: 0 };
      const words = Math.max(...names.flatMap((name) => String(name).split(BREAKS).map(length)));
      if (words <= slot - 8 && longest <= 3 * slot) return { interval: 0, formatter: (name) => wrapped(String(name), (slot - 8) / 6.9) };
      if (longest < 60 && names.length > 12) return { interval: "auto" };
      if (slot < 15) return { interval: "auto", rotate: 45, width: 120, overflow: "truncate" };
      return { interval: 0, rotate: 40, width: Math.min(150, this.width / 4), overflow: "truncate" };
    }

    lines() {
      const { chart } = this;
      const made = [];
      for (const line of this.visible()) {
        const colour = this.colour(line);
        if (chart.kind === "points") {
          const data = line.points.map((dot) => [dot[0], dot[1]]);
          const style = line.dash ? { color: "none", borderColor: colour, borderWidth: 1.5 } : { color: colour, opacity: 0.75 };
          made.push({ type: "scatter", name: line.name, data, symbol: "circle", symbolSize: 6, itemStyle: style, emphasis: { disabled: true }, z: 3 });
          if (line.paper) made.push(this.level(line.paper));
          continue;
        }
        const marks = chart.kind === "line" && line.points.length <= MAX_MARKS;
        made.push({
          type: "line",
          name: line.name,
          data: line.points.map((dot) => [dot[0], dot[1]]),
          symbol: marks ? this.symbol(line) : "none",
          symbolSize: 8 + 1.5 * this.wider(line),
          showAllSymbol: true,
          lineStyle: { color: colour, width: (chart.kind === "series" ? 1.5 : 2) + this.wider(line), opacity: this.pale(line), type: DASHES[line.dash] },
          itemStyle: { color: colour, opacity: this.pale(line) },
          emphasis: { disabled: true },
          z: 3,
        });
        const between = line.points.filter((dot) => dot.length > 2 && dot[1] !== null);
        if (between.length > MAX_WHISKERS) made.push(this.band(between, colour));
        else if (between.length) made.push(this.whiskers(between, colour, () => 0));
        if (line.paper) made.push(this.paper(line.paper, colour, () => 0));
      }
      return made;
    }

    // What the paper has wherever ours lies.
    level(dots) {
      return { type: "line", name: "the paper", data: dots.map((dot) => [dot[0], dot[1]]), symbol: "none", silent: true, lineStyle: { color: theme().ink, width: 1.5, type: "dashed" }, z: 2 };
    }

    bars() {
      const { chart } = this;
      const shown = this.visible();
      const layout = { barGap: "8%", barCategoryGap: "28%", barMaxWidth: 64 };
      return shown.flatMap((line, place) => {
        const colour = this.colour(line);
        if (chart.kind === "histogram") {
          const first = line.points[0];
          return [{
            type: "line",
            name: line.name,
            step: "end",
            data: [[first[0], 0], ...line.points],
            symbol: "none",
            lineStyle: { color: colour, width: 1.5 + this.wider(line), opacity: this.pale(line), type: DASHES[line.dash] },
            itemStyle: { color: colour },
            // Many areas upon each other are of no colour.
            areaStyle: { color: colour, opacity: shown.length > 3 ? 0 : 0.28 },
            emphasis: { disabled: true },
          }];
        }
        const offset = (api) => api.barLayout({ ...layout, count: shown.length })[place].offsetCenter;
        const made = [{
          type: "bar",
          name: line.name,
          data: line.points.map((dot) => [dot[0], dot[1]]),
          itemStyle: { color: colour, opacity: this.opacity(line), borderColor: colour, borderWidth: line.dash ? 1 : 0 },
          emphasis: { disabled: true },
          ...layout,
        }];
        const between = line.points.filter((dot) => dot.length > 2 && dot[1] !== null);
        if (between.length) made.push(this.whiskers(between, theme().ink, offset));
        if (line.paper) made.push(this.paper(line.paper, theme().ink, offset));
        return made;
      });
    }

    // On a logarithmic axis, what is below zero goes down to the edge.
    down(api, params, x, y) {
      const [left, top] = api.coord([x, y]);
      const { coordSys } = params;
      const lowest = coordSys.y + coordSys.height;
      return [left, Number.isFinite(top) ? Math.min(Math.max(top, coordSys.y), lowest) : lowest];
    }

    whiskers(dots, colour, offset) {
      return {
        type: "custom",
        silent: true,
        z: 4,
        clip: true,
        data: dots.map(([x, , low, high]) => [x, this.chart.y.log && low <= 0 ? null : low, high]),
        encode: { x: 0, y: [1, 2] },
        renderItem: (params, api) => {
          const x = api.value(0);
          const low = api.value(1);
          const [at, top] = this.down(api, params, x, api.value(2));
          const bottom = low === null || Number.isNaN(low) ? params.coordSys.y + params.coordSys.height : this.down(api, params, x, low)[1];
          const middle = at + offset(api);
          const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth: 1.5 } });
          return { type: "group", children: [line(middle, top, middle, bottom), line(middle - 4, top, middle + 4, top), line(middle - 4, bottom, middle + 4, bottom)] };
        },
      };
    }

    band(dots, colour) {
      return {
        type: "custom",
        silent: true,
        z: 1,
        clip: true,
        data: dots.slice(1).map((dot, index) => [dots[index][0], dots[index][2], dots[index][3], dot[0], dot[2], dot[3]]),
        encode: { x: [0, 3], y: [1, 2, 4, 5] },
        renderItem: (params, api) => {
          const corner = (x, y) => this.down(api, params, api.value(x), api.value(y));
          const points = [corner(0, 1), corner(0, 2), corner(3, 5), corner(3, 4)];
          return { type: "polygon", shape: { points }, style: { fill: colour, opacity: 0.2 } };
        },
      };
    }

    paper(dots, colour, offset) {
      const { card } = theme();
      return {
        type: "custom",
        silent: true,
        z: 6,
        data: dots,
        encode: { x: 0, y: 1 },
        renderItem: (params, api) => {
          const [at, y] = api.coord([api.value(0), api.value(1)]);
          const x = at + offset(api);
          const points = [[x, y - 6.5], [x + 6.5, y], [x, y + 6.5], [x - 6.5, y]];
          return { type: "polygon", shape: { points }, style: { fill: card, stroke: colour, lineWidth: 2 } };
        },
      };
    }

    tip(found) {
      const { chart } = this;
      const first = Array.isArray(found) ? found[0] : found;
      const at = chart.x.names ? chart.x.names.map(String).indexOf(String(first.axisValue)) : Number(first.axisValue);
      const unit = chart.y.unit ? ` ${chart.y.unit}` : "";
      const xUnit = chart.x.unit ? ` ${chart.x.unit}` : "";
      const what = chart.x.title.replace(/ \([^)]*\)$/, "");
      const xs = chart.lines.flatMap((line) => line.points).map(([x]) => x);
      const close = this.timed() ? xs.reduce((last, x) => Math.max(last, x), 0) / 50 : Infinity;
      const near = (dots) => dots.reduce((best, dot) => (Math.abs(dot[0] - at) < Math.abs(best[0] - at) ? dot : best), dots[0]);
      const rows = [];
      let head = "";
      for (const line of this.visible()) {
        if (!line.points.length) continue;
        let dot = near(line.points);
        if (chart.kind === "histogram") {
          const bin = Math.max(0, line.points.findLastIndex(([edge]) => edge <= at));
          dot = line.points[Math.min(bin, line.points.length - 2)];
          head = `${what}: ${show(dot[0])} to ${show(line.points[line.points.indexOf(dot) + 1][0])}${xUnit}`;
        } else {
          head = chart.x.names ? `${chart.x.title}: ${chart.x.names[at]}` : `${what}: ${exact(this.timed() ? at : dot[0])}${xUnit}`;
        }
        // A series that is over has no value any more.
        if (this.timed() && Math.abs(dot[0] - at) > close) dot = [at, null];
        if (chart.x.names && dot[0] !== at) dot = [at, null];
        const interval = dot.length > 2 && dot[1] !== null && dot[4] !== 0 ? ` ± ${half(dot[4], dot[1])}` : "";
        const cell = element("td", {}, `${show(dot[1])}${interval}${dot[1] === null ? "" : unit}`);
        const paper = line.paper?.find((theirs) => theirs[0] === dot[0]);
        if (paper) cell.append(element("br"), element("small", {}, `paper ${exact(paper[1])}${unit}`));
        rows.push([dot[1] ?? -Infinity, element("tr", {}, element("th", {}, this.swatch(line), " ", line.name), cell)]);
      }
      if (rows.length > 12) {
        rows.sort((a, b) => b[0] - a[0]);
        const rest = rows.length - 12;
        rows.length = 12;
        rows.push([0, element("tr", {}, element("th", {}, element("small", {}, `and ${rest} more`)), element("td"))]);
      }
      return element("div", { class: "tip" }, head, element("table", {}, element("tbody", {}, ...rows.map(([, row]) => row))));
    }
  }

  const plots = typeof echarts === "undefined" ? [] : [...document.querySelectorAll("[data-chart]")].map((box) => new Plot(box, data.charts[Number(box.dataset.chart)]));
  const redraw = () => plots.forEach((plot) => plot.draw());
  dark.addEventListener("change", redraw);
  const print = (now) => () => {
    printing = now;
    root.classList.toggle("printing", now);
    redraw();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));

  // The list of all metrics: made when it is opened, and no longer than a reader can use.
  const MAX_ROWS = 400;
  const list = document.querySelector("details.metrics");
  if (list) {
    const { points, names, units, rows } = data.metrics;
    const input = list.querySelector("input");
    const fill = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = ([point, name]) => {
        const text = `${points[point]} ${names[name]}`.toLowerCase();
        return words.every((word) => text.includes(word));
      };
      const found = rows.filter(wanted);
      const made = found.slice(0, MAX_ROWS).map(([point, name, mean, half, min, max]) => {
        const numbers = [show(mean, 4), half === null ? "–" : show(half), show(min, 4), show(max, 4)];
        const cells = numbers.map((text) => element("td", { class: "number" }, text));
        return element("tr", {}, element("td", {}, points[point]), element("th", { scope: "row" }, element("code", {}, names[name])), ...cells, element("td", {}, units[name]));
      });
      list.querySelector("tbody").replaceChildren(...made);
      const shown = made.length < found.length ? `the first ${made.length} of ${found.length}` : `${found.length}`;
      list.querySelector("output").textContent = `${shown} of ${rows.length} shown`.replace(/^the first (\d+) of (\d+) of \d+ shown$/, "the first $1 of $2 are shown");
    };
    list.addEventListener("toggle", () => list.open && !list.querySelector("tbody").children.length && fill());
    input.addEventListener("input", fill);
  }
})();

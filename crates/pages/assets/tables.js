// Tables and drawings of pages.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and contents. */
export function element(name, attributes = {}, contents = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...contents);
  return made;
}

/** An element of a drawing, with attributes and a text. */
export function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Puts parts into their place. If the same ones are there, only their contents are new, and they keep focus and scrolling. */
export function fill(place, parts) {
  const keys = parts.map(({ key }) => key).join();
  const made = parts.map(({ make }) => make());
  if (place.dataset.keys === keys) {
    made.forEach((part, number) => place.children[number].replaceChildren(...part.childNodes));
  } else {
    place.dataset.keys = keys;
    place.replaceChildren(...made);
  }
}

/**
 * A table that scrolls sideways by itself: `columns` with `title` and `align`, `rows` that are each a `heading`, or a `name` with `values` or
 * with `words`, all of them texts with a `tone`; `left_out` more are found by `elsewhere`.
 */
export function tableOf({ title, columns, rows, left_out: leftOut }, elsewhere) {
  const head = element("tr", {}, [element("th", { scope: "col" }, ["name"]), ...columns.map((column) => element("th", { scope: "col", class: column.align }, [column.title]))]);
  const whole = (cell, span, tag = "td") => element(tag, { colspan: span, class: cell.tone }, [cell.text]);
  const body = rows.map(({ heading, values, words }) => {
    if (heading) return element("tr", {}, [whole(heading, columns.length + 1)]);
    if (words) return element("tr", {}, [element("th", { scope: "row" }, [words.name]), whole(words.words, columns.length)]);
    const cells = values.cells.map((cell, place) => element("td", { class: `${columns[place].align} ${cell.tone}` }, [cell.text]));
    return element("tr", {}, [element("th", { scope: "row" }, [values.name]), ...cells]);
  });
  if (leftOut > 0) body.push(element("tr", {}, [whole({ text: `and ${leftOut} more: ${elsewhere}`, tone: "faint" }, columns.length + 1)]));
  const caption = title[0].toUpperCase() + title.slice(1);
  const table = element("table", {}, [element("caption", {}, [caption]), element("thead", {}, [head]), element("tbody", {}, body)]);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, [table]);
}

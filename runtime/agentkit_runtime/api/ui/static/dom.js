// Elements. Text is only ever set as text: labels come from tenants.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/**
 * Make an element. `props`: `class`, `text`, `title`, `on` (listeners), `data`, `style` (set through
 * the object model, which the content security policy allows), and any attribute.
 */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** Make an SVG element. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [type, f] of Object.entries(value)) element.addEventListener(type, f);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set an element's text, and touch the page only when it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element. */
export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** A label of a tenant: cut off where there is no room, whole as a tooltip, of any direction. */
export function label(text, extra = "") {
  return h("bdi", { class: `label ${extra}`.trim(), text, title: text });
}

/**
 * Keep the children of one element in step with a list, by key, so that what is focused stays.
 * `make(item)` gives `{ element, update(item) }`.
 */
export class Rows {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.rows = new Map();
  }

  update(items, keyOf) {
    const before = this.rows;
    this.rows = new Map();
    let place = this.parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (this.rows.has(key)) continue;
      const row = before.get(key) ?? this.make(item);
      before.delete(key);
      row.update(item);
      this.rows.set(key, row);
      if (row.element === place) place = place.nextElementSibling;
      else this.parent.insertBefore(row.element, place);
    }
    for (const row of before.values()) row.element.remove();
  }
}

/** Runs an example and posts what its last block prints, much as Node's console prints it. */
const custom = Symbol.for('nodejs.util.inspect.custom');

const text = (value) => (typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : inspect(value));
const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name}'`);

function inspect(value, depth = 0) {
  if (typeof value?.[custom] === 'function') return value[custom]();
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value === 'function') return `[Function: ${value.name || '(anonymous)'}]`;
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value);
  if (depth > 2) return Array.isArray(value) ? '[Array]' : '[Object]';
  const inner = (entry) => (typeof entry === 'string' ? text(entry) : inspect(entry, depth + 1));
  const list = (open, items, close) => (items.length === 0 ? open + close : `${open} ${items.join(', ')} ${close}`);
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const name = Array.isArray(value) ? '' : `${value.constructor.name}(${value.length}) `;
    const more = value.length > 100 ? [`... ${value.length - 100} more items`] : [];
    return `${name}${list('[', [...Array.from(value).slice(0, 100).map(inner), ...more], ']')}`;
  }
  const { name } = value.constructor ?? {};
  const prefix = name && name !== 'Object' ? `${name} ` : '';
  return `${prefix}${list(
    '{',
    Object.entries(value).map(([name, entry]) => `${key(name)}: ${inner(entry)}`),
    '}',
  )}`;
}

const show = (value) => postMessage({ text: value });
const print = (values) => values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ');

self.onmessage = async ({ data: { code, until } }) => {
  for (const name of ['log', 'info', 'warn', 'error'])
    console[name] = (...values) => {
      if (self.heedBlock === until) show(print(values));
    };
  const url = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
  try {
    await import(url);
  } catch (reason) {
    show(reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason));
  }
  postMessage({ ended: true });
};

// Lets several WebAssembly modules share one glue script. Emscripten gives a module's imports and exports short names, by the
// module's own counts; here those of one module are renamed to those of another with the same imports.

const kFunction = 0;
const kMemory = 2;
/** The glue's identifier of the module's memory. */
const MEMORY = 'wasmMemory';

/** The names in a glue script: Maps from its identifiers to the short names, and the signatures that embind's calls have. */
export function namesIn(glue) {
  const [, table] = glue.match(/wasmImports=\{([^}]*)\}/);
  const imports = table.split(',').map((entry) => entry.split(':'));
  const exports = [...glue.matchAll(/(\w+)(?:"\])?=wasmExports\["(\w+)"\]/g)];
  return {
    imports: new Map(imports.map(([name, identifier = name]) => [identifier, name])),
    exports: new Map(exports.map(([, identifier, name]) => [identifier, name])),
    signatures: [...glue.matchAll(/(\w+):function\(humanName/g)].map(([, signature]) => signature),
  };
}

/**
 * The module `bytes`, whose glue is `glue`, with the names of `other`, a glue that shall run it. An imported memory gets the
 * name "memory", and is also exported under the name that `other` expects of the module's memory.
 */
export function renamed(bytes, glue, other) {
  const [from, to] = [namesIn(glue), namesIn(other)];
  const renames = (kind) => {
    const missing = [...to[kind].keys()].filter((identifier) => identifier !== MEMORY && !from[kind].has(identifier));
    if (missing.length > 0) throw new Error(`a module lacks the ${kind} ${missing.join(', ')} of another`);
    return new Map([...from[kind]].map(([identifier, name]) => [name, to[kind].get(identifier)]));
  };
  const [imports, exports] = [renames('imports'), renames('exports')];
  const signature = from.signatures.find((each) => !to.signatures.includes(each));
  if (signature) throw new Error(`the shared glue has no invoker for functions of the signature ${signature}`);
  const module = new Reader(bytes);
  const out = [module.take(8)];
  while (!module.ended) {
    const id = module.take(1);
    let section = module.take(module.number());
    if (id[0] === 2) section = renameImports(new Reader(section), imports);
    if (id[0] === 7) section = renameExports(new Reader(section), exports, to.exports.get(MEMORY));
    out.push(id, number(section.length), section);
  }
  return Buffer.concat(out);
}

function renameImports(section, names) {
  const count = section.number();
  const out = [number(count)];
  for (let i = 0; i < count; i++) {
    const [module, name] = [section.name(), section.name()];
    const start = section.at;
    const kind = section.take(1)[0];
    if (kind === kMemory) {
      const limits = section.take(1)[0];
      section.number();
      if (limits & 1) section.number();
    } else if (kind === kFunction) section.number();
    else throw new Error(`an import of kind ${kind}`);
    const to = kind === kMemory ? 'memory' : names.get(name);
    if (!to) throw new Error(`the import ${name} is not in the glue`);
    out.push(text(module), text(to), section.bytes.subarray(start, section.at));
  }
  return Buffer.concat(out);
}

function renameExports(section, names, memory) {
  const count = section.number();
  const out = [];
  for (let i = 0; i < count; i++) {
    const name = section.name();
    const start = section.at;
    section.take(1);
    section.number();
    // Those that the glue does not use are left out: their names may be taken.
    if (names.get(name)) out.push([text(names.get(name)), section.bytes.subarray(start, section.at)]);
  }
  out.push([text(memory), Buffer.from([kMemory, 0])]);
  return Buffer.concat([number(out.length), ...out.flat()]);
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  get ended() {
    return this.at === this.bytes.length;
  }
  take(count) {
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }
  /** LEB128, as all numbers in a module. */
  number() {
    for (let [value, scale] = [0, 1]; ; scale *= 128) {
      const byte = this.take(1)[0];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  name() {
    return this.take(this.number()).toString('utf8');
  }
}

function number(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const text = (name) => Buffer.concat([number(name.length), Buffer.from(name)]);

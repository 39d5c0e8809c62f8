/** Edits ONNX files: reads and writes the fields of protobuf messages. */
import { PbfReader, PbfWriter } from 'pbf';

export type Field = { field: number; type: number; bytes: Uint8Array };

/** The fields of a message; those with a length as bytes, others as numbers. */
export function fieldsOf(bytes: Uint8Array): Field[] {
  const found: Field[] = [];
  const pbf = new PbfReader(bytes);
  pbf.readFields((field) => {
    const { type } = pbf;
    const start = pbf.pos;
    if (type === 2) found.push({ field, type, bytes: pbf.readBytes().slice() });
    else {
      pbf.skip(type);
      found.push({ field, type, bytes: bytes.slice(start, pbf.pos) });
    }
  }, null);
  return found;
}

export function messageOf(fields: readonly Field[]): Uint8Array {
  const pbf = new PbfWriter();
  for (const { field, type, bytes } of fields) {
    if (type === 2) pbf.writeBytesField(field, bytes);
    else {
      pbf.writeTag(field, type);
      for (const byte of bytes) {
        pbf.realloc(1);
        pbf.buf[pbf.pos++] = byte;
      }
    }
  }
  return pbf.finish().slice();
}

export const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Numbers from 0 to 1. */
const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
};

const [INPUT, OUTPUT, OPERATOR] = [1, 2, 4];

/** The texts in a field of a message. */
export const valuesOf = (fields: Field[], which: number) =>
  fields.flatMap(({ field, bytes }) => (field === which ? textOf(bytes) : []));

/** The nodes in a random order in which each follows those that it reads, with exchanged operands of sums and products. */
export function shuffled(nodes: Field[][], seed: number): Field[][] {
  const next = random(seed);
  const computed = new Set(nodes.flatMap((fields) => valuesOf(fields, OUTPUT)));
  const done = new Set<string>();
  const left = [...nodes];
  const out: Field[][] = [];
  while (left.length > 0) {
    const ready = left.flatMap((fields, i) =>
      valuesOf(fields, INPUT).every((value) => !computed.has(value) || done.has(value)) ? i : [],
    );
    const [fields] = left.splice(ready[Math.floor(next() * ready.length)]!, 1) as [Field[]];
    for (const value of valuesOf(fields, OUTPUT)) done.add(value);
    const [op] = valuesOf(fields, OPERATOR);
    const inputs = fields.filter(({ field }) => field === INPUT);
    const isSwapped = (op === 'Add' || op === 'Mul') && inputs.length === 2 && next() < 0.5;
    out.push(isSwapped ? [...inputs.reverse(), ...fields.filter(({ field }) => field !== INPUT)] : fields);
  }
  return out;
}

/** How vectors are written: as numbers in JSON, or as the entries of a matrix. */

export interface Stored {
  values: Float32Array | Int8Array | Uint8Array;
  /** int8 only; value = int8 * scale. */
  scale?: number | undefined;
}

/** Nine significant digits determine every fp32 value exactly. */
const decimal = (v: number) => (Object.is(v, -0) ? '-0' : String(Number(v.toPrecision(9))));

/** The entries of a vector as a list in JSON. Reading it gives the same fp32 numbers. */
const jsonList = ({ values }: Stored): string =>
  `[${(values instanceof Float32Array ? Array.from(values, decimal) : values).join(',')}]`;

/** A record and the entries of its vector as one line of JSON. */
export const jsonLine = (record: object, vector?: Stored): string => {
  const head = JSON.stringify(vector ? { ...record, scale: vector.scale } : record);
  return vector ? `${head.slice(0, -1)},"embedding":${jsonList(vector)}}\n` : `${head}\n`;
};

/** The .npy format 1.0 has a header of 128 bytes with type and shape, then the rows. */
export const NPY_HEADER_BYTES = 128;

export function npyHeader(rows: number, width: number, type = '<f4'): Uint8Array {
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${rows}, ${width}), }`;
  const header = new Uint8Array(NPY_HEADER_BYTES).fill(32);
  header.set([0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, NPY_HEADER_BYTES - 10, 0]);
  header.set(new TextEncoder().encode(text), 10);
  header[NPY_HEADER_BYTES - 1] = 10;
  return header;
}

/** The type of a matrix with such entries. */
export const npyTypeOf = (values: Float32Array | Int8Array | Uint8Array): string =>
  values instanceof Float32Array ? '<f4' : values instanceof Int8Array ? '|i1' : '|u1';

/** The shape that a header gives; null if heed did not write it. */
export function npyShape(header: Uint8Array): [rows: number, width: number] | null {
  const [, rows, width] = /'shape': \((\d+), (\d+)\)/.exec(new TextDecoder('latin1').decode(header)) ?? [];
  return rows === undefined ? null : [Number(rows), Number(width)];
}

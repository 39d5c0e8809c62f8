/** How vectors are written: as numbers in JSON, or as the entries of a matrix. */

/** A vector as it is stored. */
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

/**
 * A classifier as the text of a link: of each label, a scale and a bias as little-endian floats and the weights as bytes, in base64url; then the labels.
 * The encoder is the shipped model, so that a link holds only what was learned.
 */
export interface Classifier {
  labels: string[];
  /** [labels][width] */
  weight: number[][];
  bias: number[];
}

/** Changes with the shipped model, to whose vectors the weights belong, and with the layout. */
const version = 'a';

/** Some browsers and chat programs truncate longer links. */
const longest = 7500;

/** The bytes before the weights of a label. */
export const headerBytes = 8;

/** The text for a link; null for a classifier that is too large for one. */
export function pack({ labels, weight, bias }: Classifier): string | null {
  const width = weight[0]!.length;
  const bytes = new Uint8Array(labels.length * (headerBytes + width));
  const view = new DataView(bytes.buffer);
  for (const [i, row] of weight.entries()) {
    const start = i * (headerBytes + width);
    const scale = Math.max(...row.map(Math.abs)) / 127 || 1;
    view.setFloat32(start, scale, true);
    view.setFloat32(start + 4, bias[i]!, true);
    for (const [j, value] of row.entries()) view.setInt8(start + headerBytes + j, Math.round(value / scale));
  }
  const encoded = toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  const text = [version + encoded, ...labels.map((label) => label.replace(/\s+/g, ' '))].join('\t');
  return encodeURIComponent(text).length <= longest ? text : null;
}

/** Reads what `pack` wrote, for vectors of `width`. Throws an Error that says what is wrong with any other text. */
export function unpack(text: string, width: number): Classifier {
  const [encoded = '', ...labels] = text.split('\t');
  const bytes = fromBase64(encoded.slice(version.length));
  if (!encoded.startsWith(version) || !bytes)
    throw new Error('It is damaged, or was made by another version of this page.');
  if (labels.length < 2 || labels.some((label) => label.trim() === '') || new Set(labels).size < labels.length)
    throw new Error('Its labels are missing. The link may have been cut off.');
  if (bytes.length !== labels.length * (headerBytes + width))
    throw new Error('Its weights and labels do not match. The link may have been cut off.');
  const view = new DataView(bytes.buffer);
  const starts = labels.map((_, i) => i * (headerBytes + width));
  const floats = (at: number) => starts.map((start) => view.getFloat32(start + at, true));
  const [scales, bias] = [floats(0), floats(4)];
  if (![...scales, ...bias].every((value) => Math.abs(value) < 1e6)) throw new Error('Its weights are not numbers.');
  const weight = starts.map((start, i) =>
    Array.from({ length: width }, (_, j) => scales[i]! * view.getInt8(start + headerBytes + j)),
  );
  return { labels, weight, bias };
}

/** Standard base64 of what `pack` wrote, for programs. */
export const weightsOf = (text: string): string =>
  text.split('\t', 1)[0]!.slice(version.length).replaceAll('-', '+').replaceAll('_', '/');

const toBase64 = (bytes: Uint8Array) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
  } catch {
    return null;
  }
}

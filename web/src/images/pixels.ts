/** Checks images in all accepted forms, and reads their pixels as RGB bytes. */
import { describe, formatShape, guarded, type HeedError, invalid } from '../base/error.js';
import { lengthOf } from '../base/options.js';
import type { BlobLike } from '../base/platform.js';
import { kindOf, readTensor } from '../base/tensor.js';
import { bytesOf, isBlob } from '../io/bytes.js';
import type { Pixels } from '../models/image-encoder.js';
import type { Rgb } from './resize.js';

/** The maximum number of pixels per image. */
export const MAX_PIXELS = 2 ** 26;

/** A preprocessed image: normalized values [3, height, width]. */
export interface Values {
  values: Float32Array;
  height: number;
  width: number;
}

/** A checked image: pixels, an encoded image, a drawable element, or preprocessed values. */
export type Checked = Pixels | { encoded: BlobLike } | { drawable: object } | Values;

const EXPECTED = '{ data, width, height } with RGBA or RGB bytes, or, in browsers, a Blob or what a canvas draws';

const hasDecoder = () => typeof createImageBitmap === 'function' && typeof OffscreenCanvas === 'function';
const DRAWABLES = [
  'ImageBitmap',
  'HTMLImageElement',
  'HTMLCanvasElement',
  'OffscreenCanvas',
  'HTMLVideoElement',
  'VideoFrame',
];

const isPixels = (data: unknown): data is Pixels['data'] =>
  ['Uint8ClampedArray', 'Uint8Array'].includes(kindOf(data) ?? '');

function encoded(name: string, value: unknown): HeedError {
  const hint = hasDecoder()
    ? 'Put encoded bytes into a Blob: new Blob([bytes])'
    : 'Decode it first, in Node for example with sharp: const { data, info } = await sharp(bytes).removeAlpha().toColourspace("srgb").raw().toBuffer({ resolveWithObject: true }), then { data, width: info.width, height: info.height }';
  return invalid(
    name,
    hasDecoder() ? EXPECTED : 'decoded pixels: { data, width, height } with RGBA or RGB bytes',
    describe(value),
    'UNSUPPORTED',
    { hint },
  );
}

function requireSize(name: string, width: unknown, height: unknown): void {
  for (const [key, extent] of Object.entries({ width, height }))
    if (!Number.isInteger(extent) || (extent as number) < 1)
      throw invalid(`${name}.${key}`, 'a whole number from 1', describe(extent));
  if ((width as number) * (height as number) > MAX_PIXELS) {
    const hint = 'Scale it down first';
    throw invalid(name, `at most ${MAX_PIXELS} pixels (2^26)`, `${width} x ${height}`, 'OUT_OF_MEMORY', { hint });
  }
}

/** Checks one image, or a tensor of several. */
function check(value: unknown, name: string): Checked[] {
  if (typeof value === 'string' || bytesOf(value)) throw encoded(name, value);
  if (typeof value !== 'object' || value === null) throw invalid(name, EXPECTED, describe(value));
  if (isBlob(value)) {
    if (!hasDecoder()) throw encoded(name, value);
    if (value.size === 0) throw invalid(name, 'an encoded image', 'an empty Blob');
    return [{ encoded: value }];
  }
  if (DRAWABLES.includes(Object.prototype.toString.call(value).slice(8, -1))) return [{ drawable: value }];
  const { data, width, height, shape } = value as Record<string, unknown>;
  if (shape !== undefined) return preprocessed(readTensor(name, value), name);
  if (data === undefined && width === undefined) throw invalid(name, EXPECTED, describe(value));
  requireSize(name, width, height);
  const count = (width as number) * (height as number);
  if (!isPixels(data)) throw invalid(`${name}.data`, 'a Uint8ClampedArray or a Uint8Array', describe(data));
  if (data.length !== 4 * count && data.length !== 3 * count) {
    const expected = `${4 * count} bytes (RGBA) or ${3 * count} (RGB) for ${width} x ${height} pixels`;
    throw invalid(`${name}.data`, expected, `${data.length}`, 'SHAPE_MISMATCH');
  }
  return [{ data, width: width as number, height: height as number }];
}

function preprocessed({ data, shape }: { data: Float32Array; shape: number[] }, name: string): Checked[] {
  const [height = 0, width = 0] = shape.slice(-2);
  const size = 3 * height * width;
  if (![3, 4].includes(shape.length) || shape.at(-3) !== 3 || size === 0)
    throw invalid(
      name,
      'a tensor [3, height, width] or [N, 3, height, width]',
      `shape ${formatShape(shape)}`,
      'SHAPE_MISMATCH',
    );
  const wrong = data.findIndex((entry) => !Number.isFinite(entry));
  if (wrong >= 0) throw invalid(name, 'finite values', `${data[wrong]} at entry ${wrong}`);
  return Array.from({ length: data.length / size }, (_, n) => ({
    values: data.subarray(n * size, (n + 1) * size),
    height,
    width,
  }));
}

/** Checks images without decoding them. */
export function readImages(given: unknown): Checked[] {
  return guarded('images', () => {
    if (!Array.isArray(given)) return check(given, 'images');
    return Array.from({ length: lengthOf(given, 'images') }, (_, n) => check(given[n], `images[${n}]`)).flat();
  });
}

/** The RGB bytes of a checked image. Decodes it if necessary. */
export async function rgbOf(image: Exclude<Checked, { values: unknown }>, name: string): Promise<Rgb> {
  if (!('data' in image)) return rgbOf(await drawn('encoded' in image ? image.encoded : image.drawable, name), name);
  const { data, width, height } = image;
  if (data.length === 3 * width * height) return image;
  const rgb = new Uint8ClampedArray(3 * width * height);
  for (let i = 0, j = 0; j < rgb.length; i += 4) {
    rgb[j++] = data[i]!;
    rgb[j++] = data[i + 1]!;
    rgb[j++] = data[i + 2]!;
  }
  return { data: rgb, width, height };
}

/** Draws an image, oriented by its EXIF data, and reads its pixels. */
async function drawn(image: object, name: string): Promise<Pixels> {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(image as Blob);
  } catch (cause) {
    const got = isBlob(image) ? `a Blob of type '${image.type}'` : describe(image);
    throw invalid(name, 'an image that this browser can decode', `${got} (${describe(cause)})`, 'INVALID_ARGUMENT', {
      cause,
    });
  }
  try {
    const { width, height } = bitmap;
    requireSize(name, width, height);
    const canvas = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
    if (!canvas) throw invalid(name, 'a canvas to decode it with', 'none', 'UNSUPPORTED');
    canvas.drawImage(bitmap, 0, 0);
    return guarded(name, () => canvas.getImageData(0, 0, width, height));
  } finally {
    bitmap.close();
  }
}

/** The form in which an image can be posted to a worker: the image itself, or a bitmap for elements of a page. */
export async function portable(image: Checked, name: string): Promise<object> {
  if ('values' in image) return { data: image.values.slice(), shape: [3, image.height, image.width] };
  if ('encoded' in image) return image.encoded;
  if ('drawable' in image) return drawn(image.drawable, name);
  const { data } = image;
  // A message copies the whole buffer behind a view.
  return data.byteLength < data.buffer.byteLength ? { ...image, data: data.slice() } : { ...image };
}

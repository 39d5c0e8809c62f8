/**
 * Image preprocessing by the settings in preprocessor_config.json or processor_config.json, as in Hugging Face's
 * CLIPImageProcessor, SiglipImageProcessor, ViTImageProcessor, BitImageProcessor and DINOv3ViTImageProcessorFast.
 */
import { invalid } from '../base/error.js';
import type { Settings } from '../io/settings.js';
import { MAX_PIXELS, type Values } from './pixels.js';
import { centerCrop, FILTERS, type Rgb, resize, type Samples } from './resize.js';

/** An upper limit above any published preprocessing. */
const MAX_SIDE = 2 ** 13;

/** The target size: width and height, or the length of the shorter side. */
type Size = { width: number; height: number } | { shortest: number };

/** The published size of images. */
const WHOLE = { width: 224, height: 224 };

interface Steps {
  size: Size | null;
  resample: number;
  crop: { width: number; height: number } | null;
  factor: number;
  mean: number[];
  std: number[];
  /** Whether resized values are kept as fractions instead of rounded to bytes (DINOv3). */
  exact: boolean;
}

const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711];
const IMAGENET_MEAN = [0.485, 0.456, 0.406];
const IMAGENET_STD = [0.229, 0.224, 0.225];

const PROCESSORS =
  'CLIPImageProcessor, SiglipImageProcessor, ViTImageProcessor, BitImageProcessor or DINOv3ViTImageProcessorFast';

export class Preprocessing {
  readonly #steps: Steps;

  /** `type`: the model's family, for files that do not specify the image processor. */
  constructor(settings: Settings, type: string) {
    const key = settings.keyOf(['image_processor_type', 'feature_extractor_type']);
    const name = settings.text(key, type);
    const kind = ['clip', 'siglip', 'vit', 'bit', 'dinov2', 'dinov3'].find((each) =>
      new RegExp(`^${each}(ViT)?(Image|Feature|_|$)`, 'i').test(name),
    );
    if (!kind) throw settings.unsupported(key, PROCESSORS, `'${name}'`);
    const halves = kind === 'siglip' || kind === 'vit';
    const exact = kind === 'dinov3';
    const square = settings.flag('default_to_square', kind === 'vit' || exact);
    const fallback = halves || exact ? WHOLE : { shortest: 224 };
    const resample = settings.count('resample', exact || kind === 'vit' ? 2 : 3);
    if (!Object.hasOwn(FILTERS, resample))
      throw settings.unsupported('resample', '2 (bilinear) or 3 (bicubic)', `${resample}`);
    const crops = settings.flag('do_center_crop', !halves && !exact);
    if (settings.flag('do_pad', false)) throw settings.unsupported('do_pad', 'false', 'true');
    if (exact && crops) throw settings.unsupported('do_center_crop', 'false', 'true');
    const rescales = settings.flag('do_rescale', true);
    if (exact && !rescales) throw settings.unsupported('do_rescale', 'true', 'false');
    const [mean, std] = halves
      ? [
          [0.5, 0.5, 0.5],
          [0.5, 0.5, 0.5],
        ]
      : exact
        ? [IMAGENET_MEAN, IMAGENET_STD]
        : [CLIP_MEAN, CLIP_STD];
    const normalizes = settings.flag('do_normalize', true);
    this.#steps = {
      size: settings.flag('do_resize', true)
        ? sizeIn(settings, 'size', fallback, { square, edges: !halves && !exact })
        : null,
      resample,
      crop: crops
        ? (sizeIn(settings, 'crop_size', halves ? null : WHOLE, { square: true, edges: false }) as Steps['crop'])
        : null,
      factor: rescales ? settings.between('rescale_factor', 0, Infinity, 1 / 255) : 1,
      mean: normalizes ? channels(settings, 'image_mean', mean) : [0, 0, 0],
      std: normalizes ? channels(settings, 'image_std', std, 0) : [1, 1, 1],
      exact,
    };
  }

  /** Resizes and crops an image: bytes, or fractions if the settings are `exact`. */
  pixels(image: Rgb): { data: Samples; width: number; height: number } {
    const { size, resample, crop, exact } = this.#steps;
    const [width, height] = size ? sidesOf(image, size) : [image.width, image.height];
    const data = resize(image, width, height, FILTERS[resample]!, exact);
    return crop
      ? centerCrop({ data: data as Rgb['data'], width, height }, crop.width, crop.height)
      : { data, width, height };
  }

  /** Returns the model's input values, [3, height, width]. */
  apply(image: Rgb): Values {
    const { factor, mean, std } = this.#steps;
    const { data, width, height } = this.pixels(image);
    const count = width * height;
    const values = new Float32Array(3 * count);
    for (let c = 0; c < 3; c++) {
      const [scale, shift] = [factor / std[c]!, mean[c]! / std[c]!];
      for (let i = 0; i < count; i++) values[c * count + i] = data[3 * i + c]! * scale - shift;
    }
    return { values, height, width };
  }
}

/** The width and height after resizing. With `shortest`, the longer side is rounded down. */
function sidesOf({ width, height }: Rgb, size: Size): [number, number] {
  if ('width' in size) return [size.width, size.height];
  const { shortest } = size;
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const longest = Math.trunc((shortest * long) / short);
  if (shortest * longest > MAX_PIXELS)
    throw invalid(
      'images',
      `at most ${MAX_PIXELS} pixels (2^26) when the shorter side is ${shortest}`,
      `${width} x ${height}, whose longer side is then ${longest}`,
    );
  return width <= height ? [shortest, longest] : [longest, shortest];
}

/**
 * Reads a size: a number, { height, width } or, if `edges`, { shortest_edge }. `square`: a number sets both sides rather
 * than the shorter one. `fallback`: null if the size is required.
 */
function sizeIn(
  settings: Settings,
  key: string,
  fallback: Size | null,
  { square, edges }: { square: boolean; edges: boolean },
): Size {
  const given = settings.get(key);
  if (given === undefined && fallback) return fallback;
  if (typeof given === 'number') {
    const side = settings.count(key, undefined, 1, MAX_SIDE);
    return square ? { width: side, height: side } : { shortest: side };
  }
  const record = settings.record(key);
  if (!record) throw settings.wrong(key, '{ height, width }', given);
  const side = (name: string) => record.count(name, undefined, 1, MAX_SIDE);
  if (record.get('shortest_edge') !== undefined && edges && record.get('longest_edge') === undefined)
    return { shortest: side('shortest_edge') };
  if (record.get('height') === undefined)
    throw settings.unsupported(
      key,
      edges ? '{ shortest_edge } or { height, width }' : '{ height, width }',
      JSON.stringify(given),
    );
  return { width: side('width'), height: side('height') };
}

/** Reads one number per channel, each greater than `low`. */
function channels(settings: Settings, key: string, fallback: number[], low = -Infinity): number[] {
  const given = settings.get(key) ?? fallback;
  const isLegal =
    Array.isArray(given) &&
    given.length === 3 &&
    given.every((v) => Number.isFinite(v) && v > low && (low < 0 || Number.isFinite(1 / v)));
  if (!isLegal) throw settings.wrong(key, low === 0 ? 'three positive numbers' : 'three numbers', given);
  return given as number[];
}

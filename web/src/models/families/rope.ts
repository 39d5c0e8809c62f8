/**
 * The angles of rotary positions, as modeling_rope_utils.py of transformers computes them. Notation: D rotated features
 * of a head, L the length of a text.
 */
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { plainFrequencies } from './family.js';

const TYPE_KEYS = ['rope_type', 'type'];

/** Records of settings; a key has its value in the first record that has the key. */
type Records = readonly Settings[];

/** Where the rotary settings of one kind of layers are. */
interface RopeSettings {
  records: Records;
  /** The keys for the type: published files also call it `type`, which transformers reads in some places only. */
  typeKeys: readonly string[];
  /** The record with YaRN's `truncate`. */
  outer: Settings | undefined;
  /** Whether `original_max_position_embeddings` may also be outside of the records. */
  isFlat: boolean;
}

/** The rotary positions of one kind of layers. */
interface Rope {
  base: number;
  /** The angle per position of each pair of features; undefined: base^(-2k/D). */
  frequencies: number[] | undefined;
  /** The factor on cosines and sines. */
  factor: number;
}

/**
 * The settings of families with one entry for all layers: `rope_scaling`, or `rope_parameters` of transformers 5.
 * `kind`: the kind of layers, in files with one entry per kind.
 */
export function ropeSettings(s: Settings, kind?: string): RopeSettings {
  const scaling = s.record('rope_scaling');
  const outer = scaling && scaling.names().length > 0 ? scaling : s.record('rope_parameters');
  const record = kind === undefined ? outer : outer?.record(kind);
  return { records: record ? [record] : [], typeKeys: TYPE_KEYS, outer, isFlat: kind === undefined };
}

/**
 * The settings of a kind of layers, in families that always have an entry per kind. `isScaled`: whether
 * `rope_scaling` is merged into it.
 */
export function ropeSettingsOf(s: Settings, kind: string, isScaled = true): RopeSettings {
  const outer = s.record('rope_parameters');
  const records = [isScaled ? s.record('rope_scaling') : undefined, outer?.record(kind)];
  // Without `rope_parameters`, transformers merges into { rope_type: 'default' }, so that `type` has no effect.
  const typeKeys = outer ? TYPE_KEYS : TYPE_KEYS.slice(0, 1);
  return { records: records.filter((each) => each !== undefined), typeKeys, outer, isFlat: false };
}

/** The first record that has one of `keys`, and the key. */
function placeOf(records: Records, keys: readonly string[]): [Settings, string] | undefined {
  for (const key of keys) {
    const record = records.find((each) => each.get(key) !== undefined);
    if (record) return [record, key];
  }
  return undefined;
}

/** The types of positions that heed computes. */
const TYPES = ['default', 'linear', 'dynamic', 'yarn', 'llama3', 'proportional'];

/**
 * Reads the angles of one kind of layers.
 *
 * `dynamic` changes the angles only of texts with more tokens than `max_position_embeddings`, which is the longest text
 * that heed takes. In transformers, the longest text of a batch decides for all of them.
 * @param about `key`: where older files have the base, if the family has such files; `fallback`: its default; `dim`: D
 * @throws HeedError `UNSUPPORTED` for other types, such as `longrope`
 */
export function rope(
  s: Settings,
  { records, typeKeys, outer, isFlat }: RopeSettings,
  about: { key?: string | undefined; fallback: number; dim: number; maxPositions: number },
): Rope {
  const { key, fallback, dim, maxPositions } = about;
  const number = (name: string, low: number, absent?: number) => {
    const [record, own] = placeOf(records, [name]) ?? [records.at(-1)!, name];
    return record.between(own, low, Infinity, absent);
  };
  const theta = placeOf(records, ['rope_theta']);
  const readBase = () => (key === undefined ? fallback : s.between(key, 1, Infinity, fallback));
  const base = theta ? theta[0].between('rope_theta', 1, Infinity) : readBase();
  const place = placeOf(records, typeKeys);
  const [record] = place ?? (placeOf(records, TYPE_KEYS) ? [] : (placeOf(records, ['factor']) ?? []));
  if (!record) return { base, frequencies: undefined, factor: 1 };
  const type = place ? record.text(place[1], 'default') : 'none';
  const fraction = placeOf(isFlat ? [...records, s] : records, ['partial_rotary_factor']);
  const rotated = fraction ? fraction[0].between('partial_rotary_factor', 0, Infinity) : 1;
  const typeKey = place?.[1] ?? 'rope_type';
  if (!TYPES.includes(type)) throw record.unsupported(typeKey, `one of ${TYPES.join(', ')}`, `'${type}'`);
  if (rotated !== 1 && type !== 'default' && type !== 'proportional') {
    const got = `'${type}' with partial_rotary_factor ${rotated}`;
    throw record.unsupported(typeKey, "'proportional', or partial_rotary_factor 1", got);
  }
  const pairs = plainFrequencies(base, dim);
  const scaled = (frequencies: number[], factor = 1): Rope => ({ base, frequencies, factor });
  /** The length of texts before the angles were scaled. */
  const originalLength = () => {
    const name = 'original_max_position_embeddings';
    return isFlat && s.get(name) !== undefined ? s.between(name, 0, Infinity) : number(name, 0, maxPositions);
  };
  switch (type) {
    case 'linear': {
      const factor = number('factor', 0);
      return scaled(pairs.map((w) => w / factor));
    }
    case 'dynamic':
      number('factor', 0); // without effect on texts of up to max_position_embeddings tokens
      return { base, frequencies: undefined, factor: 1 };
    case 'proportional': {
      const factor = number('factor', 0, 1);
      const count = Math.floor((rotated * dim) / 2);
      return scaled(pairs.map((w, k) => (k < count ? w / factor : 0)));
    }
    case 'llama3': {
      const [factor, low, high] = [number('factor', 0), number('low_freq_factor', 0), number('high_freq_factor', 0)];
      const length = originalLength();
      return scaled(
        pairs.map((w) => {
          const turns = (length * w) / (2 * Math.PI);
          if (turns < low) return w / factor;
          if (turns > high) return w;
          const smooth = (turns - low) / (high - low);
          return ((1 - smooth) * w) / factor + smooth * w;
        }),
      );
    }
    case 'yarn': {
      const length = originalLength();
      const factor = placeOf(records, ['factor']) ? number('factor', 0) : maxPositions / length;
      const mscale = (weight: number) => (factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1);
      const given = (name: string) => (placeOf(records, [name]) ? number(name, -Infinity) : 0);
      const [top, bottom] = [given('mscale'), given('mscale_all_dim')];
      const amplitude = placeOf(records, ['attention_factor'])
        ? number('attention_factor', -Infinity)
        : top && bottom
          ? mscale(top) / mscale(bottom)
          : mscale(1);
      const correction = (turns: number) => (dim * Math.log(length / (turns * 2 * Math.PI))) / (2 * Math.log(base));
      const [first, last] = [given('beta_fast') || 32, given('beta_slow') || 1].map(correction) as [number, number];
      const truncates = outer?.flag('truncate', true) ?? true;
      const low = Math.max(truncates ? Math.floor(first) : first, 0);
      let high = Math.min(truncates ? Math.ceil(last) : last, dim - 1);
      if (low === high) high += 0.001; // prevents a division by zero
      return scaled(
        pairs.map((w, k) => {
          const scaledShare = Math.min(1, Math.max(0, (k - low) / (high - low)));
          return (w / factor) * scaledShare + w * (1 - scaledShare);
        }),
        amplitude,
      );
    }
    default:
      return { base, frequencies: undefined, factor: 1 };
  }
}

/** The options of an encoder for its rotary positions: those of all layers, or of those with global attention. */
export const ropeOptions = ({ base, frequencies, factor }: Rope): Partial<RawEncoderModelConfig> => ({
  rotaryBase: base,
  ...(frequencies && { rotaryFrequencies: frequencies }),
  ...(factor !== 1 && { rotaryFactor: factor }),
});

/** The options for the rotary positions of layers with a window. */
export const localRopeOptions = ({ base, frequencies, factor }: Rope): Partial<RawEncoderModelConfig> => ({
  localRotaryBase: base,
  ...(frequencies && { localRotaryFrequencies: frequencies }),
  ...(factor !== 1 && { localRotaryFactor: factor }),
});

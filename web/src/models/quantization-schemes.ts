/** Reads how compressed-tensors has quantized the weights of each group of modules. */
import type { Settings } from '../io/settings.js';
import { groupsIn, METHOD, quantizationIn } from './families/quantization.js';

/** How the weights of some modules are quantized. */
export interface WeightScheme {
  /** Names of modules, or of classes of torch.nn. */
  targets: readonly string[];
  type: 'int' | 'float';
  bits: number;
  /** Whether there are no zero points. */
  symmetric: boolean;
  /** What has a scale of its own: the tensor, a row, or a block of `rows` x `columns` values. */
  scales: 'tensor' | 'channel' | { rows: number; columns: number };
}

/** The formats that heed reads. Others, such as nvfp4-pack-quantized, have values of other types. */
const FORMATS = ['int-quantized', 'naive-quantized', 'float-quantized', 'pack-quantized', 'mixed-precision', 'dense'];

const HINT = 'Use weights in fp32, fp16 or bf16, and quantize them with `quantize`';

/**
 * The schemes of the groups of modules; empty if no weights are quantized.
 * @throws HeedError UNSUPPORTED for other methods and formats
 */
export function schemesIn(settings: Settings): readonly WeightScheme[] {
  const config = quantizationIn(settings);
  if (!config) return [];
  const old = ['load_in_8bit', 'load_in_4bit'].find((key) => config.get(key) === true);
  const method = config.text('quant_method', old ? 'bitsandbytes' : METHOD);
  if (method !== METHOD) throw config.unsupported('quant_method', `'${METHOD}'. ${HINT}`, `'${method}'`);
  const status = config.text('quantization_status', 'compressed');
  // Weights of other states are floats, which Python rounds when it runs the model.
  if (status !== 'compressed') throw config.unsupported('quantization_status', "'compressed'", `'${status}'`);
  const sparsity = config.record('sparsity_config')?.text('format', 'dense') ?? 'dense';
  if (sparsity !== 'dense') throw config.unsupported('sparsity_config', "format 'dense'", `'${sparsity}'`);
  const format = formatOf(config);
  return groupsIn(config).flatMap((group) => {
    formatOf(group, format);
    return schemeOf(group) ?? [];
  });
}

function formatOf(settings: Settings, fallback = 'dense'): string {
  const format = settings.text('format', fallback);
  if (FORMATS.includes(format)) return format;
  throw settings.unsupported('format', `one of ${FORMATS.join(', ')}. ${HINT}`, `'${format}'`);
}

/** The scheme of a group; null if its weights are not quantized. */
function schemeOf(group: Settings): WeightScheme | null {
  const weights = group.record('weights');
  if (!weights) return null;
  const targets = group.get('targets');
  if (!Array.isArray(targets)) throw group.wrong('targets', 'a list of names', targets);
  const type = weights.text('type', 'int').toLowerCase();
  const bits = weights.count('num_bits', 8, 1, 8);
  if (type !== 'int' && !(type === 'float' && bits === 8))
    throw weights.unsupported('type', "'int', or 'float' with num_bits 8", `'${type}' with num_bits ${bits}`);
  const order = weights.get('actorder');
  if (['group', 'dynamic', true].includes(order as never))
    throw weights.unsupported('actorder', "null or 'weight', as columns are not reordered", JSON.stringify(order));
  if (weights.get('dynamic') === true) throw weights.unsupported('dynamic', 'false for weights', 'true');
  const symmetric = weights.flag('symmetric', true);
  if (type === 'float' && !symmetric) throw weights.unsupported('symmetric', "true for type 'float'", 'false');
  const scales = scalesIn(weights);
  return { targets: targets.map(String), type: type as WeightScheme['type'], bits, symmetric, scales };
}

function scalesIn(weights: Settings): WeightScheme['scales'] {
  const size = weights.count('group_size', 0, -1);
  const strategy = weights.text('strategy', size > 0 ? 'group' : size < 0 ? 'channel' : 'tensor');
  switch (strategy.toLowerCase()) {
    case 'tensor':
      return 'tensor';
    case 'channel':
      return 'channel';
    case 'group':
      return { rows: 1, columns: weights.count('group_size', undefined, 1) };
    case 'block': {
      const given = weights.get('block_structure');
      const sizes = typeof given === 'string' ? given.split('x').map(Number) : given;
      const isSizes = Array.isArray(sizes) && sizes.length === 2 && sizes.every((n) => Number.isInteger(n) && n > 0);
      if (!isSizes) throw weights.wrong('block_structure', 'two whole numbers', given);
      const [rows, columns] = sizes as [number, number];
      return { rows, columns };
    }
  }
  throw weights.unsupported('strategy', "'tensor', 'channel', 'group' or 'block'", `'${strategy}'`);
}

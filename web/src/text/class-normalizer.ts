/**
 * The normalizer of a tokenizer.json as transformers 5 runs it: for some tokenizer classes, tokenizer_config.json
 * determines lower-casing and related settings.
 */
import type { Settings } from '../io/settings.js';
import type { Config } from './tokenizer-settings.js';

/** Classes whose normalizer is a BertNormalizer, such as DistilBERT's and DPR's. */
const BERT_CLASSES =
  /^(Bert|DistilBert|MPNet|Funnel|Splinter|LayoutLMv2|DPRContextEncoder|DPRQuestionEncoder|DPRReader)Tokenizer(Fast)?$/;
/** Classes whose normalizer is a sequence, with or without Lowercase. */
const SEQUENCE_CLASSES = /^(Albert|FNet|RemBert|XLNet|DebertaV2)Tokenizer(Fast)?$/;

const LOWER_CASE = 'do_lower_case';

interface Normalizer extends Config {
  normalizers?: Normalizer[] | undefined;
}

/** Returns the configuration of the normalizer. `json`: tokenizer.json. `settings`: tokenizer_config.json. */
export function classNormalizer(json: Settings, settings: Settings | undefined): Config | null {
  const own = (json.get('normalizer') ?? null) as Normalizer | null;
  if (!own || !settings) return own;
  const name = String(settings.get('tokenizer_class') ?? '');
  if (own.type === 'BertNormalizer') return bertNormalizer(own, settings, name);
  const { normalizers } = own;
  if (!Array.isArray(normalizers) || !SEQUENCE_CLASSES.test(name) || settings.get(LOWER_CASE) === undefined) return own;
  const isLowercase = (each: Normalizer) => each.type === 'Lowercase';
  const lowers = settings.flag(LOWER_CASE, false);
  if (lowers === normalizers.some(isLowercase)) return own;
  if (!lowers) return { ...own, normalizers: normalizers.filter((each) => !isLowercase(each)) };
  const end = normalizers.findIndex((each) => each.type === 'Precompiled');
  const at = name.startsWith('DebertaV2') ? 0 : end < 0 ? normalizers.length : end;
  return { ...own, normalizers: [...normalizers.slice(0, at), { type: 'Lowercase' }, ...normalizers.slice(at)] };
}

/**
 * Applies tokenizer_config.json to a BertNormalizer. BERT's classes have defaults for absent settings; without a class,
 * absent settings change nothing.
 */
function bertNormalizer(own: Normalizer, settings: Settings, name: string): Normalizer {
  const isBert = BERT_CLASSES.test(name);
  if (!isBert && name !== '') return own;
  const changed: Record<string, boolean | null> = {};
  const change = (key: string, setting: string, fallback: boolean | null) => {
    if (settings.get(setting) !== undefined) changed[key] = settings.flag(setting, true);
    else if (isBert) changed[key] = fallback;
  };
  change('lowercase', LOWER_CASE, true);
  change('handle_chinese_chars', 'tokenize_chinese_chars', true);
  change('strip_accents', 'strip_accents', null); // null: strip accents if lower-casing
  return { ...own, ...changed };
}

/** The normalizer of a tokenizer.json as transformers 5 runs it: some of its tokenizers' classes take the case of letters, and what goes with it, from tokenizer_config.json. */
import type { Settings } from '../io/settings.js';
import type { Config } from './tokenizer-settings.js';

/** The classes with a BertNormalizer; DistilBERT's and DPR's are BERT's. */
const BERT_CLASSES =
  /^(Bert|DistilBert|MPNet|Funnel|Splinter|LayoutLMv2|DPRContextEncoder|DPRQuestionEncoder|DPRReader)Tokenizer(Fast)?$/;
/** The classes with a sequence of normalizers, among them Lowercase or not. */
const SEQUENCE_CLASSES = /^(Albert|FNet|RemBert|XLNet|DebertaV2)Tokenizer(Fast)?$/;

const LOWER_CASE = 'do_lower_case';

interface Normalizer extends Config {
  normalizers?: Normalizer[];
}

/** `json`: tokenizer.json; `settings`: tokenizer_config.json. */
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

/** A class of BERT's has defaults for what tokenizer_config.json does not say. If that file names no class, it changes what it says only. */
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
  change('strip_accents', 'strip_accents', null); // if letters are lower-cased
  return { ...own, ...changed };
}

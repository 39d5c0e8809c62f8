/**
 * The components of BERT's tokenizers. Most embedding models have these alone, so that they need no others;
 * components.ts has all, and is imported on demand.
 */
import type { Settings } from '../io/settings.js';
import { type Aligned, mapping, memoized, parts } from './alignment.js';
import type { ComponentMakers, Normalizer } from './component-makers.js';
import { wordPieceDecoder } from './decoding.js';
import { template } from './template.js';
import type { Config } from './tokenizer-settings.js';
import { typeOf } from './vocabulary.js';
import { wordPiece } from './word-piece.js';

/** Makes a normalizer that maps each code point separately. */
export function byPoint(rule: (point: string) => string): Normalizer {
  const others = memoized(20_000, rule);
  const ascii = Array.from({ length: 128 }, (_, code) => rule(String.fromCharCode(code)));
  const remembered = (point: string) => ascii[point.charCodeAt(0)] ?? others(point);
  return (source) => mapping(source, remembered);
}

const OTHER = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\uFFFD]/u;
const IDEOGRAPH =
  /[\u4E00-\u9FFF\u3400-\u4DBF\u{20000}-\u{2A6DF}\u{2A700}-\u{2B81F}\u{2B920}-\u{2CEAF}\uF900-\uFAFF\u{2F800}-\u{2FA1F}]/u;

function bertRule(config: Config): (point: string) => string {
  const { clean_text: cleans, handle_chinese_chars: spaces, lowercase: lowers } = config;
  const strips = config.strip_accents ?? lowers;
  return (point) => {
    if (cleans && OTHER.test(point)) return '';
    const cleaned = cleans && /\p{White_Space}/u.test(point) ? ' ' : point;
    const bare = strips ? cleaned.normalize('NFD').replace(/\p{Mn}/gu, '') : cleaned;
    const out = lowers ? [...bare].map((each) => each.toLowerCase()).join('') : bare;
    return spaces && IDEOGRAPH.test(point) ? ` ${out} ` : out;
  };
}

export const bertNormalizer = (config: Config): Normalizer => byPoint(bertRule(config));

export const ASCII_PUNCTUATION = '!-\\/:-@\\[-`\\{-~';
const BERT_WORDS = new RegExp(`[^\\p{White_Space}\\p{P}${ASCII_PUNCTUATION}]+|[\\p{P}${ASCII_PUNCTUATION}]`, 'gu');

/** BERT's pre-tokenizer: words, and each mark of punctuation. */
export const bertWords = (source: Aligned): Aligned[] => parts(source, BERT_WORDS);

export const bertComponents: ComponentMakers = {
  normalizerOf: bertNormalizer,
  preTokenizerOf: () => bertWords,
  modelOf: wordPiece,
  postProcessorOf: template,
  trimsOf: () => [],
  decoderOf: wordPieceDecoder,
};

/** Whether BERT's components are the only ones of a tokenizer.json. */
export function hasBertComponents(json: Settings): boolean {
  const typeIn = (key: string) => (json.get(key) as Config | undefined)?.type;
  const isOnly = (key: string, type: string) => json.get(key) === undefined || typeIn(key) === type;
  const model = json.get('model') as Config | undefined;
  return (
    isOnly('normalizer', 'BertNormalizer') &&
    isOnly('pre_tokenizer', 'BertPreTokenizer') &&
    isOnly('post_processor', 'TemplateProcessing') &&
    isOnly('decoder', 'WordPiece') &&
    (model?.type ?? typeOf(model ?? {})) === 'WordPiece'
  );
}

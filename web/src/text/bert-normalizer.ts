/** The normalizer that BERT's tokenizer class makes of tokenizer_config.json. */
import type { Settings } from '../io/settings.js';
import type { Config } from './tokenizer-settings.js';

/** The normalizer of BERT's class. */
export function bertNormalizer(
  settings: Settings,
  { lowers, cleans = true }: { lowers?: boolean | undefined; cleans?: boolean | undefined } = {},
): Config {
  const accents = 'strip_accents';
  return {
    type: 'BertNormalizer',
    clean_text: cleans,
    handle_chinese_chars: settings.flag('tokenize_chinese_chars', true),
    // null: strip accents if lower-casing
    strip_accents: settings.get(accents) === undefined ? null : settings.flag(accents, true),
    lowercase: lowers ?? settings.flag('do_lower_case', true),
  };
}

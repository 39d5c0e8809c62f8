/** The post-processor of most tokenizers: templates of a text and of a pair, with special tokens. */
import type { PostProcessor } from './component-makers.js';
import type { Config } from './tokenizer-settings.js';
import { requireId } from './vocabulary.js';

interface Part {
  Sequence?: { id: 'A' | 'B'; type_id: number } | undefined;
  SpecialToken?: { id: string; type_id: number } | undefined;
}

export function template(config: Config): PostProcessor {
  const special = (config.special_tokens ?? {}) as Record<string, { ids: number[]; tokens: string[] }>;
  for (const [name, { ids }] of Object.entries(special)) for (const id of ids) requireId('post_processor', name, id);
  return (encodings, withSpecial) => {
    const parts = (encodings.length > 1 ? config.pair : config.single) as Part[];
    return parts.flatMap(({ Sequence: sequence, SpecialToken: token }) => {
      if (sequence) {
        const { tokens } = encodings[sequence.id === 'A' ? 0 : 1]!;
        return [{ tokens, types: tokens.map(() => sequence.type_id) }];
      }
      if (!token || !withSpecial) return [];
      const { ids, tokens } = special[token.id]!;
      return [{ tokens: ids.map((id, i) => ({ id, text: tokens[i]! })), types: ids.map(() => token.type_id) }];
    });
  };
}

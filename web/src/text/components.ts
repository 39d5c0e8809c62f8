/** The components of tokenizer.json. Imported on demand, for tokenizers with components other than BERT's. */
import type { ComponentMakers } from './component-makers.js';
import { decoderOf } from './decoders.js';
import { normalizerOf } from './normalizers.js';
import { postProcessorOf, trimsOf } from './post-processors.js';
import { preTokenizerOf } from './pre-tokenizers.js';
import { modelOf } from './vocabulary-models.js';

export const components: ComponentMakers = {
  normalizerOf,
  preTokenizerOf,
  modelOf,
  postProcessorOf,
  trimsOf,
  decoderOf,
};

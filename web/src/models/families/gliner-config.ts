/** Reads gliner_config.json, which replaces config.json in the folder of a GLiNER. Imported on demand. */
import { invalid } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
import type { Family } from './family.js';

const PREFIX = 'token_rep_layer.bert_layer.model.';
const HEAD = /^(token_rep_layer\.projection|rnn|span_rep_layer|prompt_rep_layer)\./;
const MODEL_TYPE = 'gliner_uni_encoder_span';

/** The settings of gliner_config.json. */
export class GlinerConfig {
  /** The settings of the encoder. */
  readonly encoder: Settings;
  /** K, the maximum number of words per span. */
  readonly maxWidth: number;
  /** The maximum number of words per window. */
  readonly maxWords: number;
  /** D, the width of span and label vectors. */
  readonly width: number;
  readonly recurrentLayers: number;
  /** Whether a label is represented by its marker rather than by its first token. */
  readonly embedsMarker: boolean;
  readonly marker: string;
  readonly separator: string;

  /** @throws HeedError UNSUPPORTED for models that do not score spans by their first and last word */
  constructor(settings: Settings) {
    const refuse = (key: string, expected: string, got: string) => {
      throw settings.unsupported(key, expected, got);
    };
    const type = settings.text('model_type', MODEL_TYPE);
    if (type !== MODEL_TYPE && type !== 'gliner') refuse('model_type', `'${MODEL_TYPE}' or 'gliner'`, `'${type}'`);
    const others = {
      labels_encoder: 'a model with one encoder for texts and labels',
      labels_decoder: 'a model that does not generate labels',
      relations_layer: 'a model that does not extract relations',
      post_fusion_schema: 'a model without fusion after the encoder',
    };
    for (const [key, expected] of Object.entries(others))
      if (settings.text(key, '') !== '') refuse(key, expected, `'${settings.text(key, '')}'`);
    const choices = { span_mode: 'markerV0', subtoken_pooling: 'first', words_splitter_type: 'whitespace' };
    for (const [key, only] of Object.entries(choices)) {
      const got = settings.text(key, only);
      if (got !== only) refuse(key, `'${only}'`, `'${got}'`);
    }
    for (const key of ['fuse_layers', 'precomputed_prompts_mode'])
      if (settings.flag(key, false)) refuse(key, 'false', 'true');
    const encoder = settings.record('encoder_config');
    if (!encoder)
      throw invalid(`${settings.file}: encoder_config`, "the encoder's settings", 'none', 'UNSUPPORTED', {
        hint: 'In Python, GLiNER.from_pretrained(folder).save_pretrained(folder, safe_serialization=True) writes them',
      });
    this.encoder = encoder.withDefaults({ model_type: 'deberta-v2' });
    this.maxWidth = settings.count('max_width', 12, 1, 1024);
    this.maxWords = settings.count('max_len', 384, 1);
    this.width = settings.count('hidden_size', 512, 2, 16384);
    if (this.width % 2 !== 0) throw settings.wrong('hidden_size', 'an even number', this.width);
    this.recurrentLayers = settings.count('num_rnn_layers', 1, 0, 16);
    this.embedsMarker = settings.flag('embed_ent_token', true);
    this.marker = settings.text('ent_token', '<<ENT>>');
    this.separator = settings.text('sep_token', '<<SEP>>');
  }

  /** The encoder's family, with its tensors' names in a GLiNER. */
  family(family: Family): Family {
    return { ...family, prefix: PREFIX, headTensors: HEAD };
  }
}

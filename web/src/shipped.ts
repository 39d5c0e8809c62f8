/** The model that comes with the package. */

// Spelled out, one by one: bundlers look for exactly this form, and copy what it names.
export const shippedModel = {
  'config.json': new URL('./model/config.json', import.meta.url),
  'tokenizer.json': new URL('./model/tokenizer.json', import.meta.url),
  'tokenizer_config.json': new URL('./model/tokenizer_config.json', import.meta.url),
  'modules.json': new URL('./model/modules.json', import.meta.url),
  'sentence_bert_config.json': new URL('./model/sentence_bert_config.json', import.meta.url),
  '1_Pooling/config.json': new URL('./model/1_Pooling/config.json', import.meta.url),
  'model.safetensors': new URL('./model/model.safetensors', import.meta.url),
};

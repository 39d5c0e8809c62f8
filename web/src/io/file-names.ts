/** Names of settings files that several modules read. */

/** sentence-transformers' settings for reading texts. Older versions named the file after the architecture. */
export const TRANSFORMER_SETTINGS = 'sentence_bert_config.json';
export const OLD_TRANSFORMER_SETTINGS = ['roberta', 'distilbert', 'camembert', 'albert', 'xlm-roberta', 'xlnet'].map(
  (name) => `sentence_${name}_config.json`,
);

/** Settings of image preprocessing. transformers 5 writes those of all inputs into one file, INPUT_SETTINGS. */
export const IMAGE_SETTINGS = 'preprocessor_config.json';
export const INPUT_SETTINGS = 'processor_config.json';

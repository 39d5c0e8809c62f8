// Classification and named entities in Node.
//
//   node classify.mjs                                    # downloads two checkpoints (268 and 261 MB) from the host below, once
//   node classify.mjs ./my-classifier ./my-ner-model     # folders
//
// Checkpoints are fine-tuned for their labels; look for the tasks "text classification" and "token classification" on a hub, in a family that heed has
// (BERT, RoBERTa, DistilBERT, MPNet, ELECTRA, ALBERT, ModernBERT), with the files model.safetensors and tokenizer.json.
import { classify, classifyTokens, load } from 'heed';

const [sentiment = 'distilbert/distilbert-base-uncased-finetuned-sst-2-english', ner = 'dslim/distilbert-NER'] =
  process.argv.slice(2);
const options = { remoteHost: 'https://huggingface.co', cache: true, dtype: 'q8' };
const heed = await load();

const classifier = await heed.fromPretrained(sentiment, options);
const texts = ['A wonderful film from start to finish.', 'The plot is dull and far too long.'];
for (const [i, [best]] of (await classify(classifier, texts)).entries())
  console.log(`${texts[i]} -> ${best.label} ${best.score.toFixed(2)}`);
classifier.dispose();

const tagger = await heed.fromPretrained(ner, options);
const text = 'Ada Lovelace met Charles Babbage in London.';
const [entities] = await classifyTokens(tagger, [text], { aggregation: 'simple' });
for (const { label, start, end, score } of entities)
  console.log(`${text.slice(start, end)} -> ${label} ${score.toFixed(2)}`);
tagger.dispose();

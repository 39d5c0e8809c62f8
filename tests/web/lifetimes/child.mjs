// Makes each call of the table on an object that nothing else refers to, and collects garbage until the call settles.
// Then waits until the collector has freed every object and all workers have ended. Prints the outcomes as JSON.
//
// node [--expose-gc] child.mjs <folder of models> <folder of the package> [names, with commas]
// With --expose-gc, collects garbage in every turn; otherwise allocates, so that the engine does.
import threads from 'node:worker_threads';

const [folder, dist, only] = process.argv.slice(2);
const [api, train, lens, evaluation] = await Promise.all(
  ['index', 'train', 'lens', 'evaluation'].map((name) => import(`${dist}/${name}.js`)),
);
const adapters = Object.fromEntries(
  await Promise.all(
    ['ai-sdk', 'langchain', 'chroma', 'lancedb'].map(async (name) => [
      name,
      await import(`${dist}/adapters/${name}.js`),
    ]),
  ),
);

let workers = 0;
const { Worker } = threads;
threads.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    workers++;
    this.once('exit', () => workers--);
  }
};

const turn = () => new Promise((resolve) => setImmediate(resolve));
let sink;
/** Collects garbage, or allocates what makes the engine do so. */
function disturb() {
  if (globalThis.gc) return globalThis.gc();
  for (let i = 0; i < 8; i++) sink = [new Uint8Array(2 ** 20), Array.from({ length: 20_000 }, () => ({}))];
  return sink;
}

/** Objects that have not been collected. */
const left = new Map();
const registry = new FinalizationRegistry((token) => left.delete(token));
let made = 0;
function watched(name, object) {
  const token = ++made;
  left.set(token, name);
  registry.register(object, token);
  return object;
}

const texts = Array.from({ length: 24 }, (_, i) => ['the quick brown fox', 'a', 'x y z'][i % 3] + ' the'.repeat(i % 9));
const labels = ['fox', 'dog'];
const image = {
  data: Uint8ClampedArray.from({ length: 4 * 30 * 30 }, (_, i) => (i * 37) % 256),
  width: 30,
  height: 30,
};
const examples = texts.map((text, i) => ({ text: `${text} ${i}`, label: labels[i % 2] }));
const pairs = Array.from({ length: 12 }, (_, i) => ({ a: `fox ${i} x`, b: `the ${i} y z` }));
const inputs = Array.from({ length: 64 }, (_, i) => [Math.sin(i), Math.cos(i)]);
const data = { inputs, labels: inputs.map(([x]) => [x]) };
const consumed = async (stream) => {
  let count = 0;
  for await (const _ of stream) count++;
  return count;
};

/** A model of a folder, of an instance of heed that is forgotten as well. */
const model =
  (kind, options = {}, load = api.load, threads = 1) =>
  async () =>
    (await load({ threads })).fromPretrained(`${folder}/${kind}`, options);
const heed = () => api.load();
const trainingHeed = () => train.load();
const network = async () => {
  const heed = await train.load();
  return new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })], { seed: 1 });
};

/** A classifier apart from a model: its file, made once. */
let headFile;
async function savedHead() {
  const heed = await train.load();
  const trained = await heed.fromPretrained(`${folder}/bert`);
  await heed.trainClassifier(trained, examples, { epochs: 1, seed: 1 });
  return (await trained.save({ head: true }))['head.safetensors'];
}
const loadedHead = async (model) => {
  headFile ??= savedHead();
  return model.loadHead(await headFile);
};

/** Calls of a model, with the folder that has it. */
const modelCalls = {
  encode: ['bert', (model) => model.encode(texts, { outputAttentions: true })],
  embed: ['bert', (model) => model.embed(texts)],
  embedQuery: ['bert', (model) => model.embedQuery(texts)],
  embedDocument: ['bert', (model) => model.embedDocument(texts)],
  tokenize: ['bert', (model) => model.tokenize(texts)],
  predict: ['bert', (model) => model.predict('sequence-classification', texts)],
  embedSparse: ['bert', (model) => model.embedSparse(texts)],
  embedTokens: ['bert', (model) => model.embedTokens(texts)],
  scoreSpans: ['gliner', (model) => model.scoreSpans(['Ada lives in London.', 'a b c'], labels)],
  embedImages: ['clip', (model) => Promise.all([image, [image, image, image]].map((each) => model.embedImages(each)))],
  encodeImage: ['clip', (model) => model.encodeImage([image, image])],
  decode: ['bert', (model) => model.decode([9, 10])],
  loadHead: ['bert', loadedHead],
};
/** Functions of a model. */
const indexOf = async (...given) => (await api.load()).TextIndex.of(...given);
const functions = {
  answerQuestion: ['bert', (model) => api.answerQuestion(model, 'the fox', 'the quick brown fox '.repeat(9))],
  classify: ['bert', (model) => api.classify(model, texts)],
  classifyImages: ['dinov2-labels', (model) => api.classifyImages(model, [image, image])],
  classifyTokens: ['bert', (model) => api.classifyTokens(model, texts)],
  embedLong: ['bert', (model) => api.embedLong(model, ['the quick brown fox. '.repeat(20)], { maxTokens: 12 })],
  embedStream: ['bert', (model) => consumed(api.embedStream(model, texts, { batchSize: 7 }))],
  encodeStream: ['bert', (model) => consumed(api.encodeStream(model, texts, { batchSize: 7 }))],
  extractEntities: ['gliner', (model) => api.extractEntities(model, 'Ada lives in London.', labels)],
  fillMask: ['bert', (model) => api.fillMask(model, 'the [MASK] fox')],
  rerank: ['one-label', (model) => api.rerank(model, 'the fox', texts)],
  splitPassages: ['bert', (model) => api.splitPassages(model, 'the quick brown fox. '.repeat(20), { maxTokens: 12 })],
  vocabularyCoverage: ['bert', (model) => api.vocabularyCoverage(model, 'the quick brown fox')],
  zeroShotClassify: ['zero-shot', (model) => api.zeroShotClassify(model, texts, labels)],
  'static TextIndex.of': ['bert', (model) => indexOf(model, texts)],
  logitLens: ['bert', (model) => lens.logitLens(model, 'the fox')],
  patchGrid: [
    'bert',
    (model) =>
      lens.patchGrid(model, {
        clean: 'the fox',
        corrupted: 'the x',
        metric: ({ lastHiddenState }) => lastHiddenState.data[0],
        over: 'heads',
      }),
  ],
  rollout: ['bert', (model) => lens.rollout(model, 'the fox')],
  evaluateClassifier: [
    'bert',
    (model) =>
      evaluation.evaluateClassifier(
        model,
        examples.map(({ text }, i) => ({ text, label: model.config.labels[i % 2] })),
      ),
  ],
  evaluateEmbeddingSimilarity: [
    'bert',
    (model) =>
      evaluation.evaluateEmbeddingSimilarity(
        model,
        ['the', 'a', 'x'].map((b, score) => ({ a: 'fox', b, score })),
      ),
  ],
  evaluateInformationRetrieval: [
    'bert',
    (model) =>
      evaluation.evaluateInformationRetrieval(model, {
        queries: { q: 'fox' },
        corpus: { d: 'the fox', e: 'a' },
        relevantDocs: { q: ['d'] },
      }),
  ],
};
/** What is made with a model and has it alone. */
const users = {
  'AiSdkEmbeddingModel.doEmbed': [
    'bert',
    (model) => adapters['ai-sdk'].embeddingModel(model),
    (user) => user.doEmbed({ values: texts }),
  ],
  'AiSdkRerankingModel.doRerank': [
    'one-label',
    (model) => adapters['ai-sdk'].rerankingModel(model),
    (user) => user.doRerank({ documents: { type: 'text', values: texts }, query: 'fox' }),
  ],
  'LangChainEmbeddings.embedDocuments': [
    'bert',
    (model) => adapters.langchain.embeddings(model),
    (user) => user.embedDocuments(texts),
  ],
  'LangChainEmbeddings.embedQuery': [
    'bert',
    (model) => adapters.langchain.embeddings(model),
    (user) => user.embedQuery('fox'),
  ],
  'LangChainReranker.compressDocuments': [
    'one-label',
    (model) => adapters.langchain.reranker(model),
    (user) =>
      user.compressDocuments(
        texts.map((pageContent) => ({ pageContent, metadata: {} })),
        'fox',
      ),
  ],
  'ChromaEmbeddingFunction.generate': [
    'bert',
    (model) => adapters.chroma.embeddingFunction(model),
    (user) => user.generate(texts),
  ],
  'ChromaEmbeddingFunction.generateForQueries': [
    'bert',
    (model) => adapters.chroma.embeddingFunction(model),
    (user) => user.generateForQueries(texts),
  ],
  'TextHead.predict': ['bert', loadedHead, (head) => head.predict('sequence-classification', texts)],
  'TextIndex.add': ['bert', (model) => indexOf(model, ['a']), (index) => index.add(texts)],
  'TextIndex.remove': ['bert', (model) => indexOf(model, texts), (index) => index.remove([1, 2])],
  'TextIndex.update': ['bert', (model) => indexOf(model, texts), (index) => index.update(1, { metadata: { page: 3 } })],
  'TextIndex.save': ['bert', (model) => indexOf(model, texts), (index) => index.save()],
  'TextIndex.search': ['bert', (model) => indexOf(model, texts), (index) => index.search('fox')],
  'TextIndex.searchAll': ['bert', (model) => indexOf(model, texts), (index) => index.searchAll(texts)],
  'TextIndex.searchLatest': ['bert', (model) => indexOf(model, texts), (index) => index.searchLatest(() => {})('fox')],
};
class LanceBase {
  constructor(options) {
    this.options = options;
  }
  resolveVariables(options) {
    return options;
  }
}
const lance = async (options) => {
  const load = async () => (await api.load()).fromPretrained(`${folder}/bert`, options);
  const Class = adapters.lancedb.embeddingFunction(LanceBase, await load());
  const made = new Class();
  await made.init();
  return made;
};
/** The calls, by name and where the model is: how to make the object, and the call. */
const cases = {};
const placements = { here: {}, 'a worker': { worker: true }, 'a pool': { workers: 2 } };
for (const [where, options] of Object.entries(placements)) {
  for (const [name, [kind, call]] of Object.entries(modelCalls))
    cases[`PretrainedModel.${name}, ${where}`] = [model(kind, options), call];
  cases[`Heed.fromPretrained, ${where}`] = [heed, (heed) => heed.fromPretrained(`${folder}/bert`, options)];
  cases[`embedStream, ${where}`] = [model('bert', options), functions.embedStream[1]];
  cases[`TextIndex.search, ${where}`] = [
    async () => indexOf(await model('bert', options)(), texts),
    (index) => index.search('fox'),
  ];
  cases[`pipeline, ${where}`] = [
    async () => null,
    async () => (await api.pipeline('feature-extraction', `${folder}/bert`, options))(texts, { pooling: 'mean' }),
  ];
}
// What only calls the methods of a model is tested with a model in a worker.
{
  const [where, options] = ['a worker', placements['a worker']];
  for (const [name, [kind, call]] of Object.entries(functions))
    cases[`${name}, ${where}`] = [model(kind, options), call];
  for (const [name, [kind, make, call]] of Object.entries(users))
    cases[`${name}, ${where}`] = [async () => make(await model(kind, options)()), call];
  cases[`static TextIndex.load, ${where}`] = [
    model('bert', options),
    async (model) => {
      const bytes = await (await indexOf(model, texts)).save();
      return (await api.load()).TextIndex.load(bytes, { embedder: model });
    },
  ];
  cases[`LanceEmbeddingFunction.init, ${where}`] = [() => lance(options), (made) => made.init()];
  for (const name of ['generateEmbeddings', 'computeSourceEmbeddings', 'computeQueryEmbeddings'])
    cases[`LanceEmbeddingFunction.${name}, ${where}`] = [
      () => lance(options),
      (made) => made[name](name === 'computeQueryEmbeddings' ? 'fox' : texts),
    ];
}
for (const [name, [kind, call]] of Object.entries(modelCalls)) {
  cases[`TrainableModel.${name}, here`] = [model(kind, kind === 'bert' ? { trainable: true } : {}, train.load), call];
  if (kind === 'bert')
    cases[`TrainableModel.${name}, a worker`] = [model(kind, { trainable: true, worker: true }, train.load), call];
}
cases['PretrainedModel.embed, here on threads'] = [model('bert', {}, api.load, 2), modelCalls.embed[1]];
cases['Heed.fromPretrained, here on threads'] = [
  () => api.load({ threads: 2 }),
  async (heed) => (await heed.fromPretrained(`${folder}/bert`)).embed(texts),
];
cases['Pipeline.dispose'] = [
  () => api.pipeline('feature-extraction', `${folder}/bert`, { worker: true }),
  (pipe) => pipe.dispose(),
];
cases['Heed.inspect'] = [heed, (heed) => heed.inspect(`${folder}/bert`)];
cases.loadTokenizer = [async () => null, () => api.loadTokenizer(`${folder}/bert`)];
cases.load = [async () => null, () => api.load({ build: 'simd128' })];
cases['Heed.quantize'] = [heed, (heed) => heed.quantize(`${folder}/bert`, { texts })];
cases['Heed.prune'] = [heed, (heed) => heed.prune(`${folder}/bert`, { keep: texts })];
cases['Heed.quantizeIndex'] = [
  async () => {
    const heed = await api.load();
    return { heed, index: await heed.TextIndex.of(await heed.fromPretrained(`${folder}/bert`), texts) };
  },
  ({ heed, index }) => heed.quantizeIndex(index),
];
const attention = async () => new (await api.load()).MultiHeadAttention({ embedDim: 8, numHeads: 2, seed: 1 });
const rank = (attention) => (headMask) =>
  attention.forward(new api.Tensor(new Float32Array(32).fill(0.5), [4, 8]), { headMask }).output;
cases.headImportance = [attention, (layer) => api.headImportance(2, rank(layer))];
cases.fromKeras = [
  async () => new (await api.load()).Linear({ inFeatures: 2, outFeatures: 1 }),
  (layer) =>
    api.fromKeras(layer, [new api.Tensor(Float32Array.of(1, 2), [2, 1]), new api.Tensor(new Float32Array(1), [1])]),
];

// Training.
const fitting = async () => {
  const heed = await train.load();
  const layers = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })], { seed: 1 });
  return { layers, optimizer: new heed.optim.AdamW(layers.parameters(), { lr: 0.01 }) };
};
for (const [where, options] of Object.entries({ here: {}, 'a worker': { worker: true }, workers: { workers: 2 } }))
  for (const Class of ['Module', 'Sequential'])
    cases[`${Class}.fit, ${where}`] = [
      fitting,
      ({ layers, optimizer }) => layers.fit(data, { loss: 'mse', optimizer, epochs: 3, batchSize: 8, ...options }),
    ];
for (const Class of ['Module', 'Sequential']) {
  cases[`${Class}.evaluate`] = [network, (layers) => layers.evaluate(data, { loss: 'mse', batchSize: 8 })];
  cases[`${Class}.predict`] = [network, (layers) => layers.predict(inputs, { batchSize: 8 })];
}
for (const owner of ['FineTuning', 'TrainingHeed'])
  for (const [where, options] of Object.entries({ here: {}, 'a worker': { worker: true } })) {
    const both = (trainable) => async () => {
      const heed = await train.load();
      return {
        heed,
        model: await heed.fromPretrained(`${folder}/bert`, { ...options, ...(trainable && { trainable }) }),
      };
    };
    cases[`${owner}.trainClassifier, ${where}`] = [
      both(true),
      ({ heed, model }) => heed.trainClassifier(model, examples, { epochs: 2, seed: 1 }),
    ];
    cases[`${owner}.trainEmbedding, ${where}`] = [
      both(true),
      ({ heed, model }) => heed.trainEmbedding(model, pairs, { epochs: 1, batchSize: 4, seed: 1 }),
    ];
  }
for (const name of ['inspect', 'quantize', 'prune'])
  cases[`TrainingHeed.${name}`] = [trainingHeed, cases[`Heed.${name}`][1]];
cases['TrainingHeed.fromPretrained, here'] = [
  trainingHeed,
  (heed) => heed.fromPretrained(`${folder}/bert`, { trainable: true }),
];
cases['TrainingHeed.fromPretrained, a worker'] = [
  trainingHeed,
  (heed) => heed.fromPretrained(`${folder}/bert`, { trainable: true, worker: true }),
];
cases['TrainingHeed.quantizeIndex'] = cases['Heed.quantizeIndex'];
cases['Savable.save, here'] = [model('bert', {}, train.load), (model) => model.save()];
cases['RemotelyTrained.save, a worker'] = [
  model('bert', { trainable: true, worker: true }, train.load),
  (model) => model.save(),
];
const adapted = (options) => async () => {
  const heed = await train.load();
  const model = await heed.fromPretrained(`${folder}/bert`, { trainable: true, ...options });
  await heed.trainEmbedding(model, pairs, { train: { lora: {} }, epochs: 1, batchSize: 4, seed: 1 });
  return model;
};
cases['RemotelyTrained.mergeLora, a worker'] = [adapted({ worker: true }), (model) => model.mergeLora()];
cases['Adaptable.loadAdapter, here'] = [
  async () => {
    const files = await (await adapted({})()).save({ adapter: true });
    const heed = await train.load();
    return { model: await heed.fromPretrained(`${folder}/bert`, { trainable: true }), files };
  },
  ({ model, files }) => model.loadAdapter(files),
];
cases.attribute = [
  async () => {
    const heed = await train.load();
    return { heed, model: await heed.fromPretrained(`${folder}/bert`, { trainable: true }) };
  },
  ({ heed, model }) =>
    lens.attribute(model, 'the fox', {
      metric: ({ lastHiddenState }) =>
        heed.losses.mse(
          lastHiddenState,
          new api.Tensor(new Float32Array(lastHiddenState.data.length), lastHiddenState.shape),
        ),
      steps: 4,
    }),
];

/** Makes the object and calls it. Nothing but the promise, which is in an array so that it is not awaited, leaves. */
async function begun(name, make, call) {
  const object = await make();
  const parts = object && typeof object === 'object' && Object.getPrototypeOf(object) === Object.prototype;
  for (const part of parts ? Object.values(object) : [object])
    if (typeof part === 'object' && part !== null) watched(name, part);
  return [call(object)];
}

async function outcomeOf(name, make, call) {
  let outcome = null;
  try {
    const [promise] = await begun(name, make, call);
    if (typeof promise?.then !== 'function') return 'no promise';
    promise.then(
      () => {
        outcome = 'resolved';
      },
      (error) => {
        outcome = String(error?.stack ?? error);
      },
    );
  } catch (error) {
    return `not called: ${error?.stack}`;
  }
  waiting++;
  if (waiting === 1) void disturbing();
  while (outcome === null) await turn();
  waiting--;
  return outcome;
}

let waiting = 0;
async function disturbing() {
  while (waiting > 0) {
    disturb();
    await turn();
  }
}

const outcomes = {};
const chosen = Object.entries(cases).filter(([name]) => !only || only.split(',').some((one) => name.includes(one)));
// Several at a time, which share the collections.
const next = chosen.values();
await Promise.all(
  Array.from({ length: 6 }, async () => {
    for (const [name, [make, call]] of next) outcomes[name] = await outcomeOf(name, make, call);
  }),
);
// The collector and the workers take a moment. Stops when nothing is left, or when this does not change any more.
const state = () => `${left.size} ${workers}`;
for (let unchanged = 0; unchanged < 100 && state() !== '0 0'; ) {
  const before = state();
  disturb();
  await new Promise((resolve) => setTimeout(resolve, 10));
  unchanged = state() === before ? unchanged + 1 : 0;
}
process.stdout.write(JSON.stringify({ outcomes, left: [...left.values()], workers }));

/**
 * The ONNX file of a BERT encoder in fp32 with onnxruntime's fused operators: models.py's graph without its mask, for pages, which have no Python.
 * The numbers are those of the fields in onnx.proto, and a message is written as protobuf's encoding says (https://protobuf.dev/programming-guides/encoding/).
 */

const FLOAT = 1;
const INT64 = 7;
const FUSED = 'com.microsoft';
const utf8 = new TextEncoder();

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return [...bytes, value];
}

function join(parts) {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const whole = (field, value) => [...varint(8 * field), ...varint(value)];
const float = (field, value) => [...varint(8 * field + 5), ...bytesOf(Float32Array.of(value))];
const bytes = (field, data) => join([varint(8 * field + 2), varint(data.length), data]);
const text = (field, value) => bytes(field, utf8.encode(value));
const message = (field, ...parts) => bytes(field, join(parts));
const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

/** Attributes are floats if their names say so, else whole numbers. */
const attribute = ([name, value]) =>
  name === 'epsilon'
    ? message(5, text(1, name), float(2, value), whole(20, 1))
    : message(5, text(1, name), whole(3, value), whole(20, 2));

const tensor = (name, data, shape) =>
  message(
    5,
    ...shape.map((size) => whole(1, size)),
    whole(2, data instanceof BigInt64Array ? INT64 : FLOAT),
    text(8, name),
    bytes(9, bytesOf(data)),
  );

/** An input or an output [N, L, ...rest]. */
function value(field, name, type, rest = []) {
  const dimensions = [text(2, 'N'), text(2, 'L'), ...rest.map((size) => whole(1, size))];
  const shape = message(2, ...dimensions.map((dimension) => message(1, dimension)));
  return message(field, text(1, name), message(2, message(1, whole(1, type), shape)));
}

/** [outputs, inputs] as [inputs, outputs]. */
function transposed({ data, shape: [outputs, inputs] }) {
  const result = new Float32Array(data.length);
  for (let n = 0; n < outputs; n++) for (let k = 0; k < inputs; k++) result[k * outputs + n] = data[n * inputs + k];
  return result;
}

/**
 * @param {object} encoder as encoderFiles() returns it
 * @param {Record<string, { data: Float32Array, shape: number[] }>} encoder.tensors
 * @param {object} encoder.config
 * @returns {Uint8Array} input_ids (N, L) -> last_hidden_state (N, L, E); of token types, the first
 */
export function encoderGraph({ tensors, config }) {
  const { hidden_size: width, num_attention_heads, num_hidden_layers: layers, layer_norm_eps: epsilon } = config;
  const nodes = [];
  const constants = [];
  const constant = (name, data, shape) => {
    constants.push(tensor(name, data, shape));
    return name;
  };
  const parameter = (name) => constant(name, tensors[name].data, tensors[name].shape);
  const op = (kind, inputs, { domain = '', output = `${kind}_${nodes.length}`, ...attributes } = {}) => {
    const names = [...inputs.map((name) => text(1, name)), text(2, output)];
    nodes.push(message(1, ...names, text(4, kind), ...Object.entries(attributes).map(attribute), text(7, domain)));
    return output;
  };
  const fused = (kind, inputs, attributes) => op(kind, inputs, { domain: FUSED, ...attributes });
  const product = (x, name) => {
    const weight = tensors[`${name}.weight`];
    return op('MatMul', [x, constant(`${name}.matrix`, transposed(weight), [...weight.shape].reverse())]);
  };
  /** LN(x W^T + b + skip) */
  const skipNorm = (x, skip, dense, norm) => {
    const parameters = [`${norm}.weight`, `${norm}.bias`, `${dense}.bias`].map(parameter);
    return fused('SkipLayerNormalization', [product(x, dense), skip, ...parameters], { epsilon });
  };

  const length = op('Gather', [op('Shape', ['input_ids']), constant('one', BigInt64Array.of(1n), [])]);
  const range = op('Range', [constant('zero', BigInt64Array.of(0n), []), length, 'one']);
  const types = tensors['embeddings.token_type_embeddings.weight'].data;
  const positions = tensors['embeddings.position_embeddings.weight'];
  const places = constant(
    'places',
    positions.data.map((value, at) => value + types[at % width]),
    positions.shape,
  );
  const embedded = op('Add', [
    op('Gather', [parameter('embeddings.word_embeddings.weight'), 'input_ids']),
    op('Gather', [places, range]),
  ]);
  const norm = ['weight', 'bias'].map((part) => parameter(`embeddings.LayerNorm.${part}`));
  let x = op('LayerNormalization', [embedded, ...norm], { epsilon });
  for (let i = 0; i < layers; i++) {
    const name = `encoder.layer.${i}`;
    const parts = ['query', 'key', 'value'].map((part) => `${name}.attention.self.${part}`);
    const weight = join(parts.map((part) => bytesOf(tensors[`${part}.weight`].data)));
    const matrix = transposed({ data: new Float32Array(weight.buffer), shape: [3 * width, width] });
    const bias = join(parts.map((part) => bytesOf(tensors[`${part}.bias`].data)));
    const inputs = [
      x,
      constant(`${name}.matrix`, matrix, [width, 3 * width]),
      constant(`${name}.bias`, new Float32Array(bias.buffer), [3 * width]),
    ];
    const mixed = fused('Attention', inputs, { num_heads: num_attention_heads });
    const attended = skipNorm(mixed, x, `${name}.attention.output.dense`, `${name}.attention.output.LayerNorm`);
    const inner = `${name}.intermediate.dense`;
    const activated = fused('BiasGelu', [product(attended, inner), parameter(`${inner}.bias`)]);
    x = skipNorm(activated, attended, `${name}.output.dense`, `${name}.output.LayerNorm`);
  }
  op('Identity', [x], { output: 'last_hidden_state' });
  const graph = message(
    7,
    ...nodes,
    text(2, 'encoder'),
    ...constants,
    value(11, 'input_ids', INT64),
    value(12, 'last_hidden_state', FLOAT, [width]),
  );
  const operators = [
    [text(1, ''), whole(2, 17)],
    [text(1, FUSED), whole(2, 1)],
  ];
  return join([whole(1, 8), graph, ...operators.map((set) => message(8, ...set))]);
}

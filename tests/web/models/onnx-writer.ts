/** Writes ONNX files with the tensors of safetensors files. */
import { PbfWriter } from 'pbf';
import { headerEnd, parseHeader } from '../../../web/src/io/safetensors.js';

export interface OnnxTensor {
  name: string;
  dims: number[];
  /** The number of the type in `TensorProto.DataType`. Default 1: fp32. */
  type?: number;
  /** Left out for external data. */
  raw?: Uint8Array;
  external?: Record<string, string>;
  /** Further fields. */
  more?: (pbf: PbfWriter) => void;
}

export interface OnnxNode {
  op: string;
  inputs: string[];
  outputs?: string[];
  name?: string;
  domain?: string;
}

/** The tensors of a safetensors file. */
export function tensorsOf(bytes: Uint8Array): OnnxTensor[] {
  const start = headerEnd(bytes, 'model', bytes.length);
  return parseHeader(bytes.subarray(8, start), 'model', bytes.length).map(({ name, shape, begin, end }) => ({
    name,
    dims: shape,
    raw: bytes.slice(start + begin, start + end),
  }));
}

function writeTensor({ name, dims, type = 1, raw, external, more }: OnnxTensor, pbf: PbfWriter): void {
  for (const extent of dims) pbf.writeVarintField(1, extent);
  pbf.writeVarintField(2, type);
  pbf.writeStringField(8, name);
  if (raw) pbf.writeBytesField(9, raw);
  for (const entry of Object.entries(external ?? {}))
    pbf.writeMessage(
      13,
      ([key, value], pbf) => {
        pbf.writeStringField(1, key);
        pbf.writeStringField(2, value);
      },
      entry,
    );
  if (external) pbf.writeVarintField(14, 1);
  more?.(pbf);
}

function writeNode({ op, inputs, outputs = [], name = '', domain = '' }: OnnxNode, pbf: PbfWriter): void {
  for (const input of inputs) pbf.writeStringField(1, input);
  for (const output of outputs) pbf.writeStringField(2, output);
  pbf.writeStringField(3, name);
  pbf.writeStringField(4, op);
  pbf.writeStringField(7, domain);
}

/** An ONNX file with these nodes and tensors. Without nodes, each tensor is read by an Identity. */
export function onnxFile(
  tensors: readonly OnnxTensor[],
  nodes: readonly OnnxNode[] = tensors.map(({ name }) => ({
    op: 'Identity',
    inputs: [name],
    outputs: [`${name}_out`],
  })),
): Uint8Array {
  const pbf = new PbfWriter();
  pbf.writeVarintField(1, 8); // ir_version
  pbf.writeMessage(
    7,
    (_, pbf) => {
      for (const node of nodes) pbf.writeMessage(1, writeNode, node);
      for (const tensor of tensors) pbf.writeMessage(5, writeTensor, tensor);
    },
    null,
  );
  return pbf.finish().slice();
}

import { Tensor } from 'heed';
import type { Parameter, SavedFiles } from 'heed/train';
import { expect } from 'vitest';
import { headerEnd, metadataOf, parseHeader, readTensors, writeSafetensors } from '../../../web/src/io/safetensors.js';

export function entriesOf(bytes: Uint8Array) {
  const end = headerEnd(bytes, 'file', bytes.length);
  const json = bytes.subarray(8, end);
  expect(metadataOf(json, 'file')).toEqual({ format: 'pt' });
  return new Map(
    parseHeader(json, 'file', bytes.length).map(({ name, dtype, shape, begin, end: last }) => [
      name,
      { dtype, shape, bytes: Buffer.from(bytes.subarray(end + begin, end + last)).toString('base64') },
    ]),
  );
}

export const textOf = (files: SavedFiles, name: string) => new TextDecoder().decode(files[name]);
export const jsonOf = (files: SavedFiles, name: string) => JSON.parse(textOf(files, name));

/** Changes the values of a parameter. */
export function changeWeights(parameter: Parameter, change: (value: number, i: number) => number): void {
  const { data, shape } = parameter.value;
  parameter.write(new Tensor(data.map(change), [...shape]));
}

export const tensorsOf = (bytes: Uint8Array) =>
  readTensors({
    name: 'file',
    size: bytes.length,
    async *chunks() {
      yield bytes;
    },
  });

/** A folder with additional or changed tensors. */
export async function withTensors(
  files: Record<string, Uint8Array>,
  added: { name: string; dtype: string; shape: number[]; data: ArrayBufferView }[],
): Promise<Record<string, Uint8Array>> {
  const given = [...(await tensorsOf(files['model.safetensors']!))].map(([name, { dtype, shape, bytes }]) => ({
    name,
    dtype,
    shape,
    data: bytes as ArrayBufferView,
  }));
  const names = added.map(({ name }) => name);
  const all = [...given.filter(({ name }) => !names.includes(name)), ...added];
  return { ...files, 'model.safetensors': writeSafetensors(all, { format: 'pt' }) };
}

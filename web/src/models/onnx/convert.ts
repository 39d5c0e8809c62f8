/** An ONNX file as a safetensors file with the tensors of the state dict, for code that rewrites or lists tensors. */
import type { OpenFile } from '../../io/files.js';
import { safetensorsHeader, type TensorEntry } from '../../io/safetensors.js';
import { type ReadOptions, readOnnx } from './read.js';

/** Reads an ONNX file. The result has its tensors in memory; quantized ones are converted to fp32. */
export async function converted(
  file: OpenFile,
  options: Omit<ReadOptions, 'keepIntegers' | 'receive' | 'counter'>,
): Promise<OpenFile> {
  const tensors: { entry: TensorEntry; bytes: Uint8Array }[] = [];
  await readOnnx(file, {
    ...options,
    keepIntegers: false,
    counter: () => () => {},
    receive: async (entry, reader) => {
      tensors.push({ entry, bytes: await reader.take(entry.end, entry) });
    },
  });
  const headers = tensors.map(({ entry, bytes }) => ({ ...entry, byteLength: bytes.length }));
  const start = safetensorsHeader(headers, { format: 'pt' });
  async function* chunks(): AsyncIterable<Uint8Array> {
    yield start;
    for (const { bytes } of tensors) yield bytes;
  }
  const size = headers.reduce((sum, { byteLength }) => sum + byteLength, start.length);
  return { name: file.name, size, chunks };
}

/** Values of tensors in other files, which an ONNX file refers to by location, offset and length. */
import { invalidFile } from '../../base/error.js';
import type { OpenFile } from '../../io/files.js';
import { isInside } from '../../io/paths.js';
import { ByteReader } from '../../io/reader.js';
import { tensorOf } from '../../io/safetensors.js';
import type { TensorInfo } from './messages.js';

export interface Range {
  info: TensorInfo;
  begin: number;
  end: number;
}

/** The location and the range of a tensor's values. `file`: the ONNX file. */
export function rangeOf(info: TensorInfo, keys: Record<string, string>, file: string): [location: string, Range] {
  const { location: given = '', offset = '0', length = `${info.byteLength}` } = keys;
  const tensor = tensorOf(file, info.name);
  const location = given.replace(/^(\.\/)+/, '');
  if (!isInside(location)) throw invalidFile(tensor, 'a file in the folder of the ONNX file', `'${given}'`);
  const begin = Number(offset);
  if (!/^\d+$/.test(offset) || !Number.isSafeInteger(begin) || length !== `${info.byteLength}`)
    throw invalidFile(tensor, `an offset, and ${info.byteLength} bytes`, `'${offset}', '${length}'`);
  return [location, { info, begin, end: begin + info.byteLength }];
}

/** Reads the ranges of a file, which must not overlap; `read` reads exactly `byteLength` bytes. */
export async function readRanges(
  file: OpenFile,
  ranges: Range[],
  onBytes: (count: number) => void,
  read: (info: TensorInfo, reader: ByteReader) => Promise<void>,
): Promise<void> {
  const reader = new ByteReader(file, onBytes);
  try {
    let at = 0;
    for (const { info, begin, end } of ranges.sort((a, b) => a.begin - b.begin || a.end - b.end)) {
      if (begin < at || end > (file.size ?? Infinity))
        throw invalidFile(tensorOf(file.name, info.name), `bytes between ${at} and ${file.size}`, `${begin} to ${end}`);
      await reader.skip(begin - at);
      await read(info, reader);
      at = end;
    }
    for await (const _ of reader.rest()); // a file is only cached if all of it has been read
  } finally {
    await reader.close();
  }
}

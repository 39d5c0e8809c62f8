/** Reads a text file that the reader chose or dropped. */
import { bytes } from '../../../components/numbers';

/** Characters, or bytes of a file. More is not searched: an encoder needs about 10 s for this much on a laptop. */
export const mostText = 1_000_000;

/** The file's text, or why it has none. */
export async function readText(file: File): Promise<{ text: string } | { problem: string }> {
  if (file.size === 0) return { problem: `“${file.name}” is empty.` };
  if (file.size > mostText)
    return {
      problem: `“${file.name}” is ${bytes(file.size)}. This page searches texts of up to ${bytes(mostText)}; paste a part of it.`,
    };
  let data: Uint8Array<ArrayBuffer>;
  try {
    data = new Uint8Array(await file.arrayBuffer());
  } catch {
    return { problem: `“${file.name}” cannot be read. Is it a folder, or has it been moved?` };
  }
  const text = decoded(data);
  if (text === undefined)
    return {
      problem: `“${file.name}” is not a text file. From a PDF or a word processor, copy the text and paste it here.`,
    };
  return { text };
}

/** Text in UTF-8, in UTF-16 with a byte order mark, or in Windows-1252; undefined for anything else. */
function decoded(data: Uint8Array<ArrayBuffer>): string | undefined {
  const mark = (data[0]! << 8) | data[1]!;
  const utf16 = mark === 0xfffe ? 'utf-16le' : mark === 0xfeff ? 'utf-16be' : undefined;
  if (utf16) return new TextDecoder(utf16).decode(data);
  // Control characters other than tab, line feed, form feed and carriage return.
  if (data.some((byte) => byte < 9 || (byte > 13 && byte < 32 && byte !== 27))) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return new TextDecoder('windows-1252').decode(data);
  }
}

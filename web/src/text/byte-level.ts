/** Bytes as tokenizers write them. */
export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The alphabet of byte-level tokenizers: one printable character per byte. */
export const ALPHABET = (() => {
  let others = 0;
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : 256 + others++));
})();

/** The UTF-8 bytes of a text in the byte-level alphabet. */
export const byteCharacters = (text: string): string => Array.from(utf8(text), (byte) => ALPHABET[byte]!).join('');

/** The token that stands for a byte where a vocabulary has one (`byte_fallback`). */
export const byteToken = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;

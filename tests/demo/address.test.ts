/** What the page “Your model” makes of an address. */
import { describe, expect, it } from 'vitest';
import { addressOf, checkpoints, foldersOf, hostOf } from '../../demo/src/pages/model/address';

const files = 'https://huggingface.co/owner/name/resolve/main/';

describe('foldersOf', () => {
  it.each([
    'https://huggingface.co/owner/name',
    'https://huggingface.co/owner/name/',
    'huggingface.co/owner/name',
    'https://huggingface.co/owner/name?library=transformers#usage',
    'https://huggingface.co/owner/name/discussions/3',
    'https://huggingface.co/owner/name/tree/main',
    'https://huggingface.co/owner/name/blob/main/config.json',
    'https://huggingface.co/owner/name/resolve/main/model.safetensors',
    'https://huggingface.co/owner/name/resolve/main/',
  ])('finds the files of %s', (address) => {
    expect(foldersOf(address)).toEqual([files]);
  });

  it.each([
    ['https://huggingface.co/name', ['https://huggingface.co/name/resolve/main/']],
    ['https://hub.test/a/b/tree/refs%2Fpr%2F1/sub', ['https://hub.test/a/b/resolve/refs%2Fpr%2F1/sub/']],
    ['https://hub.test/a/b', ['https://hub.test/a/b', 'https://hub.test/a/b/resolve/main/']],
    ['https://hub.test/a/b/c?key=1', ['https://hub.test/a/b/c?key=1']],
    ['https://hub.test/a/model.safetensors', ['https://hub.test/a/model.safetensors']],
    ['./models/mine/', ['https://here.test/models/mine/', 'https://here.test/models/mine/resolve/main/']],
  ])('reads %s', (address, folders) => {
    expect(foldersOf(address, 'https://here.test/')).toEqual(folders);
  });

  it('refuses what is not a URL', () => {
    expect(foldersOf('http://[')).toBeUndefined();
    expect(foldersOf('my encoder')).toBeUndefined();
  });
});

it('the checkpoints are on the hub', () => {
  for (const checkpoint of checkpoints) {
    expect(hostOf(addressOf(checkpoint))).toBe('huggingface.co');
    expect(foldersOf(addressOf(checkpoint))).toEqual([`https://huggingface.co/${checkpoint.id}/resolve/main/`]);
    expect(checkpoint.bytes).toBeGreaterThan(50e6);
  }
});

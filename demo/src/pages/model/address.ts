/** Turns what the reader enters, such as the address of a model's page, into the URLs of folders that may have its files. */

/** A public checkpoint that the page offers. */
export interface Checkpoint {
  id: string;
  about: string;
  bytes: number;
}

const hub = 'https://huggingface.co';
/** Sites whose addresses name models, whatever follows the name. */
const hubHosts = /^(www\.)?(huggingface\.co|hf\.co|hf-mirror\.com)$/;

/**
 * The sizes are what the hub lists for config.json, tokenizer.json and model.safetensors, in this order, read in November 2026. They are shown before
 * a download starts; once the host has answered, the page shows the total that the loader reports.
 */
export const checkpoints: Checkpoint[] = [
  {
    id: 'sentence-transformers/all-MiniLM-L6-v2',
    about: 'English. Small and fast: 6 layers, width 384.',
    bytes: 612 + 466_247 + 90_868_376,
  },
  {
    id: 'BAAI/bge-small-en-v1.5',
    about: 'English, trained for search: 12 layers, width 384.',
    bytes: 743 + 711_396 + 133_466_304,
  },
  {
    id: 'intfloat/multilingual-e5-small',
    about: 'About 100 languages; most of its weights are the embeddings of 250,000 tokens. 12 layers, width 384.',
    bytes: 655 + 17_082_730 + 470_641_600,
  },
];

export const addressOf = ({ id }: Checkpoint): string => `${hub}/${id}`;
export const hostOf = (url: string): string => new URL(url).host;

/** Pages of one file, and files that belong to a folder. */
const namesFile = /\/(?:[^/]+\.json|model\.safetensors)$/;

/**
 * The URLs of the folders to look in, the most likely first; undefined if the address is not a URL.
 *
 * @example
 * foldersOf('https://huggingface.co/owner/name'); // ['https://huggingface.co/owner/name/resolve/main/']
 * foldersOf('https://example.org/owner/name/tree/v2/onnx'); // ['https://example.org/owner/name/resolve/v2/onnx/']
 * foldersOf('https://example.org/models/my-encoder'); // that folder, then '…/my-encoder/resolve/main/'
 */
export function foldersOf(address: string, base?: string): string[] | undefined {
  const hasNoScheme = /^[\w-]+(\.[\w-]+)*\.[a-z]{2,}\//i.test(address);
  const absolute = hasNoScheme ? `https://${address}` : address;
  if (!URL.canParse(absolute, base)) return undefined;
  const url = new URL(absolute, base);
  url.hash = '';
  const page = /^(\/[^/]+\/[^/]+)\/(?:tree|blob|resolve|raw)\/([^/]+)(\/.*)?$/.exec(url.pathname);
  if (page) {
    const [, model, revision, rest = ''] = page;
    return [folderAt(url, `${model}/resolve/${revision}${rest.replace(namesFile, '')}`)];
  }
  const [owner, name] = url.pathname.split('/').filter(Boolean);
  if (hubHosts.test(url.hostname) && owner)
    return [folderAt(url, `${name ? `/${owner}/${name}` : `/${owner}`}/resolve/main`)];
  const isPair = /^\/[^/]+\/[^/]+\/?$/.test(url.pathname) && !url.pathname.endsWith('.safetensors');
  return isPair ? [url.href, folderAt(url, `/${owner}/${name}/resolve/main`)] : [url.href];
}

/** Without the query, which belongs to the page. */
const folderAt = ({ origin }: URL, path: string): string => `${origin}${path.replace(/\/*$/, '/')}`;

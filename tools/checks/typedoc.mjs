// The documentation's site: docs/ and a reference generated from the sources. Paths are relative to this file.
import { formulas } from '../site/formulas.mjs';

/** @type {import('typedoc').TypeDocOptions} */
export default {
  name: 'heed',
  plugin: ['../site/reference.mjs'],
  theme: 'heed',
  navigation: { includeFolders: false },
  entryPoints: [
    '../../web/src/index.ts',
    '../../web/src/train/index.ts',
    '../../web/src/corpus.ts',
    '../../web/src/draw/index.ts',
    '../../web/src/util/index.ts',
    '../../web/src/lens/index.ts',
    '../../web/src/evaluation/index.ts',
    '../../web/src/adapters/ai-sdk.ts',
    '../../web/src/adapters/langchain.ts',
    '../../web/src/adapters/chroma.ts',
    '../../web/src/adapters/lancedb.ts',
    '../../web/src/service-worker.ts',
  ],
  tsconfig: '../../tsconfig.build.json',
  out: '../../build/docs',
  readme: '../../docs/README.md',
  projectDocuments: [
    '../../docs/!(README).md',
    '../../docs/course/README.md',
    '../../docs/course/[0-9]*.md',
    '../../docs/course/{teaching,tasks}.md',
  ],
  ignoredHighlightLanguages: ['diff', 'mermaid', 'http', 'python'],
  excludeInternal: true,
  excludeExternals: true,
  disableSources: true,
  hideGenerator: true,
  customCss: '../site/site.css',
  favicon: '../../demo/public/favicon.svg',
  searchInDocuments: true,
  // Types that are not exported by name are written out where they are used.
  validation: { notExported: false, invalidLink: true, rewrittenLink: true },
  treatWarningsAsErrors: true,
  markdownItLoader: (markdown) => markdown.use(formulas),
};

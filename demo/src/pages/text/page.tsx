/** The shipped encoder on the reader's sentences. */
import { count, plural } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { shipped } from '../../engine/heed';
import { links } from '../../state/url';
import { followDictionary, ReverseDictionary } from './dictionary';
import { DocumentSection } from './document/section';
import { followDocument, makeDocumentSearch } from './document/state';
import { Sentences, Views } from './explorer';
import { followExplorer, makeExplorer } from './state';

const sample = [
  'The bank approved the loan this morning.',
  'She sat on the bank of the river.',
  'He borrowed money to buy a house.',
  'The stream was too cold to swim in.',
].join('\n');

const explorer = makeExplorer('text', 'shipped', shipped, sample);
const documentSearch = makeDocumentSearch('text');

export function followText(): void {
  followExplorer(explorer, 'text');
  followDictionary(explorer);
  followDocument(documentSearch, 'text', shipped);
}

export function TextPage() {
  const config = shipped.value?.model.config;
  return (
    <>
      <header class="page-head">
        <h1>An encoder on your text</h1>
        <p class="lede">A small English sentence encoder runs in this tab. Your text is not sent anywhere.</p>
        {config && (
          <p class="facts">
            {plural(config.numLayers, 'layer')}, {plural(config.numHeads, 'head')} each, width {config.embedDim},{' '}
            {count(config.parameterCount)} parameters
          </p>
        )}
      </header>
      <div class="duo">
        <Sentences explorer={explorer} />
        {config && <ReverseDictionary />}
      </div>
      {config && (
        <DocumentSection search={documentSearch} takesDrops>
          This small model is for trying it out; <a href={links.model.value}>another one</a> can find more.
        </DocumentSection>
      )}
      {config ? <Views explorer={explorer} /> : <Waiting what="Attention and similarity" progress />}
    </>
  );
}

/** The shipped encoder on the reader's sentences. */
import '../../styles/panels.css';
import { count, plural } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { failure, shipped } from '../../engine/heed';
import { completeState, links } from '../../state/url';
import { followDictionary, ReverseDictionary } from './dictionary';
import { DocumentSection } from './document/section';
import { followDocument, makeDocumentSearch } from './document/state';
import { sentences, shownHead } from './examples';
import { Sentences, Views } from './explorer';
import { followExplorer, makeExplorer } from './state';

export const explorer = makeExplorer('text', 'shipped', shipped, sentences.join('\n'), shownHead);
const documentSearch = makeDocumentSearch('text');

completeState('text');
followExplorer(explorer, 'text');
followDictionary(explorer);
followDocument(documentSearch, 'text', shipped);

export function TextPage() {
  const config = shipped.value?.model.config;
  return (
    <>
      <header class="page-head">
        <h1>An encoder on your text</h1>
        <p class="lede">A small English sentence encoder runs in this tab. Nothing is uploaded.</p>
        <p class="facts">
          {config
            ? `${plural(config.numLayers, 'layer')}, ${plural(config.numHeads, 'head')} each, width ${config.embedDim}, ${count(config.parameterCount)} parameters`
            : failure.value
              ? 'The model could not be loaded.'
              : 'The model is being loaded. Its size will be shown here.'}
        </p>
      </header>
      <div class="duo">
        <Sentences explorer={explorer} />
        <ReverseDictionary />
      </div>
      <DocumentSection search={documentSearch} takesDrops>
        This small model is for trying it out; <a href={links.model.value}>a larger model</a> can find more.
      </DocumentSection>
      {config ? <Views explorer={explorer} /> : <Waiting what="Attention and similarity" progress />}
    </>
  );
}

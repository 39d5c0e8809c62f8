/** What texts mean to an encoder: similarity, the reverse dictionary, search in a document, and for models that take them, labels and pictures. */
import '../../styles/panels.css';
import { Waiting } from '../../components/waiting';
import { shipped } from '../../engine/heed';
import { completeState } from '../../state/url';
import { ModelChoice, opened, readsText, source } from '../model/choice';
import { Labels } from '../model/labels';
import { PicturesSection } from '../model/pictures/section';
import { followModel } from '../model/state';
import { SentencesBox } from '../sentences/box';
import { followSentences } from '../sentences/state';
import { followDictionary, ReverseDictionary } from './dictionary';
import { DocumentSection } from './document/section';
import { followDocument, makeDocumentSearch } from './document/state';
import { Maps } from './map';
import { followMap } from './map-state';
import { followSimilarity, Similarity } from './similarity';
import { followWords } from './words-map';

const documentSearch = makeDocumentSearch();

completeState('meaning');
followModel();
followSentences();
followSimilarity();
followDictionary();
followDocument(documentSearch, opened);
followMap(documentSearch);
followWords();

export function MeaningPage() {
  const config = opened.value?.model.config;
  const isBundled = source.value !== 'own';
  return (
    <>
      <header class="page-head compact">
        <h1>Meaning</h1>
        <p class="lede">Texts with similar meanings have similar vectors: find words, compare sentences, search.</p>
      </header>
      <ModelChoice />
      {(isBundled || readsText.value) && (
        <div class="find">
          {isBundled && <ReverseDictionary />}
          <Maps />
        </div>
      )}
      {config?.hasImageEncoder && <PicturesSection takesTexts={config.hasTokenizer} />}
      {(isBundled || readsText.value) && (
        <>
          <div class="duo panel">
            <SentencesBox />
            <Similarity />
          </div>
          {config && config.labels.length > 0 && <Labels />}
          <DocumentSection search={documentSearch} takesDrops={isBundled} />
        </>
      )}
      {isBundled && !shipped.value && <Waiting what="The results" progress />}
    </>
  );
}

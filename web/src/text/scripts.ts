/** Scripts of characters, of which those of Chinese and Japanese count as one, as in SentencePiece. */
import { memoized } from './alignment.js';

/** The scripts of Unicode 9, as in the table of the Rust library; characters of other scripts belong to none there. */
const CODES =
  'LatnZyyyGrekCyrlHaniHiraKanaHangArabHebrDevaThaiZinhAdlmAghbAhomArmiArmnAvstBaliBamuBassBatkBengBhksBopoBrahBraiBugiBuhdCakmCansCariChamCherCoptCprtDsrtDuplEgypElbaEthiGeorGlagGothGranGujrGuruHanoHatrHluwHmngHungItalJavaKaliKharKhmrKhojKndaKthiLanaLaooLepcLimbLinaLinbLisuLyciLydiMahjMandManiMarcMendMercMeroMiaoMlymModiMongMrooMteiMultMymrNarbNbatNewaNkooOgamOlckOrkhOryaOsgeOsmaPalmPaucPermPhagPhliPhlpPhnxPrtiRjngRunrSamrSarbSaurSgnwShawShrdSiddSindSinhSoraSundSyloSyrcTagbTakrTaleTaluTamlTangTavtTeluTfngTglgThaaTibtTirhUgarVaiiWaraXpeoXsuxYiii';

/** The code of a character's script; undefined for a space, and for characters without one. */
const scriptOf = memoized(5_000, (point): { code?: string } => {
  if (point === ' ') return {};
  if (/[\u30FC\p{Script=Hira}\p{Script=Kana}]/u.test(point)) return { code: 'Hani' };
  const code = CODES.match(/.{4}/g)!.find((each) => new RegExp(`\\p{Script=${each}}`, 'u').test(point));
  return code === undefined ? {} : { code };
});

/** Where the script changes, and the end of the text. What precedes the first character of a script is left out, as in the Rust library. */
export function scriptBoundaries(text: string): number[] {
  const boundaries: number[] = [];
  let last: string | undefined;
  let at = 0;
  for (const point of text) {
    const { code } = scriptOf(point);
    if (code !== undefined && code !== last) boundaries.push(at);
    last = code ?? last;
    at += point.length;
  }
  return [...boundaries, at];
}

/** Scripts of characters. As in SentencePiece, the Chinese and Japanese scripts count as one. */
import { memoized } from './alignment.js';

/** The scripts of Unicode 9, as in the Rust library's table, where characters of other scripts have no script. */
const CODES =
  'LatnZyyyGrekCyrlHaniHiraKanaHangArabHebrDevaThaiZinhAdlmAghbAhomArmiArmnAvstBaliBamuBassBatkBengBhksBopoBrahBraiBugiBuhdCakmCansCariChamCherCoptCprtDsrtDuplEgypElbaEthiGeorGlagGothGranGujrGuruHanoHatrHluwHmngHungItalJavaKaliKharKhmrKhojKndaKthiLanaLaooLepcLimbLinaLinbLisuLyciLydiMahjMandManiMarcMendMercMeroMiaoMlymModiMongMrooMteiMultMymrNarbNbatNewaNkooOgamOlckOrkhOryaOsgeOsmaPalmPaucPermPhagPhliPhlpPhnxPrtiRjngRunrSamrSarbSaurSgnwShawShrdSiddSindSinhSoraSundSyloSyrcTagbTakrTaleTaluTamlTangTavtTeluTfngTglgThaaTibtTirhUgarVaiiWaraXpeoXsuxYiii';

/** The code of a character's script; undefined for a space and for characters without a script. */
const scriptOf = memoized(5_000, (point): { code?: string | undefined } => {
  if (point === ' ') return {};
  if (/[\u30FC\p{Script=Hira}\p{Script=Kana}]/u.test(point)) return { code: 'Hani' };
  const code = CODES.match(/.{4}/g)!.find((each) => new RegExp(`\\p{Script=${each}}`, 'u').test(point));
  return code === undefined ? {} : { code };
});

/**
 * The positions where the script changes, and the end of the text. As in the Rust library, the part before the first
 * character with a script is left out.
 */
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

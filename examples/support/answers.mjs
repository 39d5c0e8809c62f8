/** Answers of the reverse dictionary: the script and the demo's page offer the same words. */

/** Words of the dictionary that are not offered: vulgar ones and insults. */
const vulgar = new Set(
  (
    'anal ass asshole bastard bimbo bitch bloody bollocks boob bugger chink cock coon crap cripple dago damn dick dyke ejaculation fag fart ' +
    'fuck gook gyp honky hooker horny jap kike kinky knob masturbate midget motherfucker nymphomania orgy piss poof porn pornography prick queer ' +
    'rape rapist retard screw sexy shag shit shitty skank slag slut sod sodomy spastic spic spunk tart tit tosser turd twat wanker whore wop'
  ).split(' '),
);

/** Whether a word of the dictionary may be offered. */
export const offered = (word) => !vulgar.has(word);

/** The `count` words of `index` that are nearest to a description's vector `query`, best first, without the description's own words. */
export function nearestWords(index, description, query, count) {
  const omitted = new Set([...vulgar, ...(description.toLowerCase().match(/[a-z]+/g) ?? [])]);
  const nearest = index.search(query, { topK: count + omitted.size });
  return nearest.filter(({ text }) => !omitted.has(text)).slice(0, count);
}

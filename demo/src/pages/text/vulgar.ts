/** Words of the dictionary that the page does not offer as answers: vulgar ones and insults. */
export const vulgar = new Set(
  (
    'anal ass asshole bastard bimbo bitch bloody bollocks boob bugger chink cock coon crap cripple dago damn dick dyke ejaculation fag fart ' +
    'fuck gook gyp honky hooker horny jap kike kinky knob masturbate midget motherfucker nymphomania orgy piss poof porn pornography prick queer ' +
    'rape rapist retard screw sexy shag shit shitty skank slag slut sod sodomy spastic spic spunk tart tit tosser turd twat wanker whore wop'
  ).split(' '),
);

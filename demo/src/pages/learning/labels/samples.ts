/** Example sets to begin with. */
import type { Example } from '../../../components/examples';
import type { LabelledText } from '../../../engine/learning/examples';

export interface Sample extends Example {
  test: string;
  examples: LabelledText[];
}

const labelled = (groups: Record<string, string[]>): LabelledText[] =>
  Object.entries(groups).flatMap(([label, texts]) => texts.map((text) => ({ text, label })));

export const samples: Sample[] = [
  {
    id: 'topics',
    name: 'Three topics',
    notice:
      'Six sentences per label are enough to tell most others on these topics apart: the encoder is already trained, and only a layer on its vectors learns.',
    test: 'Add the onions and let them simmer.',
    examples: labelled({
      cooking: [
        'Stir the soup until it boils.',
        'Bake the bread in a hot oven.',
        'Chop the garlic and fry it in butter.',
        'This sauce needs more salt.',
        'Roast the chicken with herbs.',
        'Mix flour, eggs and sugar for the cake.',
      ],
      travel: [
        'The train to the coast leaves at noon.',
        'We stayed at a small hotel by the sea.',
        'Our flight was delayed at the airport.',
        'They sailed to the island by ship.',
        'The bus climbs the mountain road.',
        'We crossed the border with our passports.',
      ],
      money: [
        'The bank raised its interest rates.',
        'She paid back the loan last year.',
        'House prices have doubled.',
        'He saves a part of his salary.',
        'The company owes millions in taxes.',
        'They invested in shares and bonds.',
      ],
    }),
  },
  {
    id: 'definitions',
    name: 'Definitions',
    notice:
      'Descriptions of persons, places and feelings, the kind of text that the encoder was made for: five of each are enough.',
    test: 'a man who takes care of a garden',
    examples: labelled({
      person: [
        'someone who repairs shoes',
        'a woman who rules a country',
        'a child who has no parents',
        'one who sails across the ocean',
        'a man who makes bread',
      ],
      place: [
        'a room in which food is cooked',
        'a field where cattle graze',
        'a building where books are kept',
        'land surrounded by water',
        'a street lined with shops',
      ],
      feeling: [
        'great joy',
        'the fear of high places',
        'sorrow after a loss',
        'anger at an insult',
        'longing for home',
      ],
    }),
  },
  {
    id: 'messages',
    name: 'Messages to a shop',
    notice:
      'These labels say what someone wants, rather than what a text is about, which is harder. Look at the examples that are confused, and add some of your own.',
    test: 'My parcel has still not arrived.',
    examples: labelled({
      delivery: [
        'Where is my package?',
        'The parcel was left at the wrong address.',
        'When will my order be shipped?',
        'The courier never rang the bell.',
        'My parcel is late.',
        'The delivery came to my neighbour.',
      ],
      refund: [
        'I want my money back.',
        'Please cancel my order and return the payment.',
        'You charged my card twice.',
        'How do I get a refund?',
        'The price on the bill is too high.',
        'I have paid for something that I never bought.',
      ],
      praise: [
        'Thank you, the shoes are wonderful.',
        'Great service, I will buy here again.',
        'The blanket is so soft and warm.',
        'What a beautiful vase!',
        'We are very happy with the lamp.',
        'A lovely gift, everyone admired it.',
      ],
    }),
  },
];

// The sentences of stories.mjs.

/** Words with two senses, each in four sentences, chosen so that the senses are far apart. */
export const SENSES = [
  {
    word: 'light',
    senses: [
      {
        meaning: 'what lamps give',
        sentences: [
          'Turn on the light in the kitchen.',
          'He switched the light off.',
          'A light was burning in the window.',
          'The light of the sun woke me.',
        ],
      },
      {
        meaning: 'not heavy',
        sentences: [
          'This suitcase is very light.',
          'The box was light enough to carry.',
          'A light jacket weighs almost nothing.',
          'The new bicycle is light and strong.',
        ],
      },
    ],
  },
  {
    word: 'date',
    senses: [
      {
        meaning: 'a day',
        sentences: [
          'What is the date of the meeting?',
          'The date of the exam has changed.',
          'They have not set a date for the election.',
          'The date of the wedding is in May.',
        ],
      },
      {
        meaning: 'a fruit',
        sentences: [
          'She ate a date and a fig.',
          'A dried date contains a lot of sugar.',
          'He bit into a sweet date.',
          'The baker filled each date with almonds.',
        ],
      },
    ],
  },
  {
    word: 'python',
    senses: [
      {
        meaning: 'a programming language',
        sentences: [
          'She wrote the program in Python.',
          'Python is an easy language to learn.',
          'The script needs Python and two libraries.',
          'The function is written in Python.',
        ],
      },
      {
        meaning: 'a snake',
        sentences: [
          'The python swallowed a goat.',
          'A python was hiding in the grass.',
          'The zoo keeps a python that is five meters long.',
          'The python squeezed its prey.',
        ],
      },
    ],
  },
  {
    word: 'right',
    senses: [
      {
        meaning: 'the side opposite to left',
        sentences: [
          'Turn right at the next corner.',
          'The door is on the right side of the hall.',
          'She writes with her right hand.',
          'Keep to the right lane.',
        ],
      },
      {
        meaning: 'what the law grants',
        sentences: [
          'Everyone has the right to vote.',
          'Workers have the right to strike.',
          'The court confirmed her right to appeal.',
          'Education is a basic human right.',
        ],
      },
    ],
  },
  {
    word: 'pupil',
    senses: [
      {
        meaning: 'a child at school',
        sentences: [
          'The teacher praised the pupil.',
          'He was the best pupil in his class.',
          'A new pupil joined the school.',
          'The pupil did his homework.',
        ],
      },
      {
        meaning: 'a part of the eye',
        sentences: [
          'The pupil of the eye widens in the dark.',
          'Light enters the eye through the pupil.',
          'The doctor examined the pupil and the iris.',
          "The pupil of a cat's eye is a narrow slit.",
        ],
      },
    ],
  },
  {
    word: 'spring',
    senses: [
      {
        meaning: 'the season',
        sentences: [
          'The trees blossom in spring.',
          'It rains a lot in spring.',
          'We planted tulips last spring.',
          'The days get longer in spring.',
        ],
      },
      {
        meaning: 'a coil of metal',
        sentences: [
          'The spring in the mattress is broken.',
          'A metal spring pushes the valve shut.',
          'The clock is driven by a coiled spring.',
          'The mechanic replaced the rusty spring.',
        ],
      },
    ],
  },
  {
    word: 'letter',
    senses: [
      {
        meaning: 'a message by post',
        sentences: [
          'She sent a letter to her grandmother.',
          'The letter arrived in the mail today.',
          'A long letter came from home.',
          'I received a letter from the bank.',
        ],
      },
      {
        meaning: 'a character of the alphabet',
        sentences: [
          'The word begins with the letter B.',
          'Z is the last letter of the alphabet.',
          'The letter E is the most common in English.',
          'The letter Q is nearly always followed by U.',
        ],
      },
    ],
  },
  {
    word: 'cell',
    senses: [
      {
        meaning: 'a unit of life',
        sentences: [
          'The nucleus of a cell contains its DNA.',
          'A bacterium is a single cell.',
          'A nerve cell sends signals.',
          'Each cell divides into two.',
        ],
      },
      {
        meaning: 'a room in a prison',
        sentences: [
          'The prisoner was locked in his cell.',
          'The thief slept in a prison cell.',
          'The police put him in a cell for the night.',
          'Two inmates share a cell.',
        ],
      },
    ],
  },
];

/** Sentences without anything special. */
export const PLAIN = [
  'The cat sat on the mat.',
  'She bought bread and cheese at the market.',
  'The train to the city leaves in ten minutes.',
  'He forgot his umbrella and got wet.',
  'The children are playing in the garden.',
  'Our neighbor has a very old car.',
  'The museum is closed on Mondays.',
  'A cold wind blew from the north.',
];

/** Adjectives, each with its noun. */
export const ADJECTIVES = [
  { sentence: 'The red car stopped.', from: 'red', to: 'car' },
  { sentence: 'She wore a blue dress.', from: 'blue', to: 'dress' },
  { sentence: 'An old man fed the birds.', from: 'old', to: 'man' },
  { sentence: 'They live in a small house.', from: 'small', to: 'house' },
  { sentence: 'The hungry dog barked.', from: 'hungry', to: 'dog' },
  { sentence: 'He told a funny story.', from: 'funny', to: 'story' },
  { sentence: 'We crossed the wide river.', from: 'wide', to: 'river' },
  { sentence: 'The black cat slept on the chair.', from: 'black', to: 'cat' },
];

/** Pronouns for people, each with the word that it refers to. For "it" and "its" the head does not do this. */
export const PRONOUNS = [
  { sentence: 'The king lost his crown.', from: 'his', to: 'king' },
  { sentence: 'The girl found her shoes.', from: 'her', to: 'girl' },
  { sentence: 'John thinks that he is late.', from: 'he', to: 'john' },
  { sentence: 'The children forgot their books.', from: 'their', to: 'children' },
  { sentence: 'The boy lost his hat and cried.', from: 'his', to: 'boy' },
  { sentence: 'My sister lost her keys.', from: 'her', to: 'sister' },
  { sentence: 'The queen sold her castle.', from: 'her', to: 'queen' },
  { sentence: "The king's daughter lost her crown.", from: 'her', to: 'daughter' },
];

export const texts = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
];

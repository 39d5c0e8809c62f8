/** A text to start with, and questions, each with words of the passage that is found first; see ../examples.ts. */
export const answers: readonly (readonly [question: string, answer: string])[] = [
  ['When is rubbish collected?', 'on Thursday'],
  ['a place to buy food', 'bread and milk'],
  ['Where is the key?', 'next to the door'],
];
export const sampleQuestion = answers[0]![0];

export const sampleText = `Notes for guests

The key is in the small box next to the door; the code is the year in which the house was built. Please lock the door from the inside at night, because the wind opens it.

The stove in the kitchen heats the whole ground floor. Open the lower flap, lay a little paper and thin wood, and light it from above. Once it burns well, close the flap halfway. Never leave the house while there is a fire.

The boiler is in the cupboard below the stairs. Press the red button for three seconds; after twenty minutes the shower is hot. If the lamp blinks, the pressure is too low: turn the black tap until the needle is in the green field.

Buses to the town leave from the church at ten minutes past every hour, the last one at nine in the evening. The village shop sells bread and milk in the morning and is closed on Mondays. The nearest doctor is in the town, across from the station.

Glass and paper go into the containers behind the church. Put all other rubbish into the grey bags and leave them at the gate on Thursday. Foxes come at night, so do not put them out earlier.

The boat may be used by everyone who can swim. The oars hang in the shed, and life jackets lie in the chest below them. Stay near the shore when the flag on the harbour wall is up, since storms arrive quickly here.

There is no television, but there are games and about two hundred books in the room upstairs. The wireless network has the name of the cat, and its password is on the back of the photograph in the hall. Our neighbour feeds the cat; she is glad if you stroke it.
`;

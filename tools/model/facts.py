"""Statements of everyday use and questions that they answer, made from patterns written for heed and the nouns of WordNet.

They teach which kind of answer a question wants: "until when" a time, "may I" a permission, "how much" a price.
"""

import random
import re

# Ancestors in WordNet whose descendants fill a slot.
SLOTS = {
    "place": "building establishment room facility institution tract structure",
    "thing": "device instrument furniture container tool machine appliance implement toy clothing garment",
    "food": "food foodstuff beverage",
    "person": "worker professional leader expert adult",
    "animal": "animal",
    "plant": "plant",
    "event": "activity social_event contest ceremony performance",
    "illness": "illness symptom",
}
TIMES = [f"{hour} {half}" for hour in range(1, 13) for half in ("am", "pm")] + ["noon", "midnight", "7.30", "9.15", "half past six", "18.00"]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split() + ["weekends", "weekdays", "public holidays"]
SPANS = [f"{n} {unit}" for n in ("two", "three", "five", "ten", "twenty", "30") for unit in ("minutes", "hours", "days", "weeks", "months", "years")]
SUMS = [f"{n} {unit}" for n in ("2", "4.50", "7", "12", "25", "80", "150") for unit in ("euros", "dollars", "pounds")]

# (statements, questions) with slots in braces; {t}: a time, {d}: a day, {s}: a span, {m}: a sum.
PATTERNS = [
    (
        ("The {place} is open from {t} to {t}.", "The {place} opens at {t} and closes at {t}.", "Opening hours of the {place}: {d}, {t} to {t}."),
        ("When does the {place} open?", "Until when is the {place} open?", "How late can I visit the {place}?", "At what time does the {place} close?"),
    ),
    (
        ("The {place} is closed on {d}.", "On {d} the {place} stays closed.", "There is nobody at the {place} on {d}."),
        ("On which day is the {place} closed?", "Can I go to the {place} on {d}?", "When is the {place} shut?"),
    ),
    (
        ("A {thing} costs {m}.", "The price of the {thing} is {m}.", "You can hire a {thing} for {m} a day.", "We charge {m} for the {thing}."),
        ("How much is the {thing}?", "What do I pay for a {thing}?", "What is the price of a {thing}?", "How expensive is a {thing}?"),
    ),
    (
        ("Admission to the {place} is {m}.", "The entrance fee of the {place} is {m}, for children half.", "Tickets for the {event} cost {m}."),
        ("What does it cost to get in?", "How much is a ticket?", "Do children get a discount?", "What do I have to pay to enter the {place}?"),
    ),
    (
        ("It is forbidden to bring a {thing} into the {place}.", "No {animal} is allowed in the {place}.", "Please leave your {thing} outside the {place}."),
        ("Can I take my {thing} into the {place}?", "May I bring the {animal} with me?", "Is a {thing} permitted in the {place}?", "What is not allowed in the {place}?"),
    ),
    (
        ("You may use the {thing} free of charge.", "The {thing} is included in the price.", "There is no fee for the {thing}."),
        ("Do I have to pay for the {thing}?", "Is the {thing} free?", "Does the {thing} cost extra?"),
    ),
    (
        ("Ask the {person} if you need help with the {thing}.", "The {person} repairs a broken {thing}.", "If the {thing} does not work, tell the {person}."),
        ("Who can help me with the {thing}?", "Whom do I tell when the {thing} is broken?", "My {thing} is damaged, whom should I ask?"),
    ),
    (
        ("The {thing} stands next to the {place}.", "You find the {thing} in the {place}.", "The {thing} is kept in the {place} on the second floor."),
        ("Where is the {thing}?", "Where can I find the {thing}?", "In which room is the {thing}?", "Where do you keep the {thing}?"),
    ),
    (
        ("Give the {animal} fresh water every day.", "The {animal} needs food twice a day.", "Feed the {animal} at {t}."),
        ("How often must I feed the {animal}?", "What does the {animal} need?", "When does the {animal} get its meal?"),
    ),
    (
        ("Water the {plant} once a week.", "The {plant} likes shade and needs little water.", "Plant the {plant} in spring in a sunny spot."),
        ("How often do I have to water the {plant}?", "Where should I put the {plant}?", "When is it time to plant the {plant}?", "Does the {plant} need sun?"),
    ),
    (
        ("Cook the {food} for {s} and stir now and then.", "Leave the {food} in the oven for {s}.", "Boil the {food} in salted water for {s}."),
        ("How long does the {food} have to cook?", "How long do I bake the {food}?", "When is the {food} done?", "How do I prepare {food}?"),
    ),
    (
        ("The {food} keeps for {s} in a cool place.", "Use the {food} within {s} after opening.", "You can freeze the {food}."),
        ("How long does the {food} keep?", "When does the {food} go bad?", "Can I put the {food} into the freezer?", "How do I store {food}?"),
    ),
    (
        ("Add the {food} to the {food} and mix well.", "Serve the {food} with {food}.", "The recipe contains {food} and {food}."),
        ("What goes well with {food}?", "Which ingredients do I need?", "What can I cook with {food}?", "Is there {food} in it?"),
    ),
    (
        ("Return the {thing} within {s}.", "You have {s} to bring back the {thing}.", "The {thing} must be handed in before {t}."),
        ("How long may I keep the {thing}?", "When do I have to give back the {thing}?", "By when must the {thing} be returned?"),
    ),
    (
        ("We refund the money if the {thing} is faulty.", "A faulty {thing} is replaced within {s}.", "The guarantee for the {thing} is valid for {s}."),
        ("My {thing} does not work, do I get my money back?", "How long is the warranty of the {thing}?", "Can I exchange the {thing}?"),
    ),
    (
        ("Clean the {thing} with a damp cloth.", "Wash the {thing} by hand in cold water.", "Remove dust from the {thing} every {d}."),
        ("How do I clean the {thing}?", "How can I get the dirt off the {thing}?", "Can I put the {thing} into the washing machine?"),
    ),
    (
        ("Press the button for {s} to start the {thing}.", "Turn the {thing} off before you open it.", "Connect the {thing} to the socket and wait {s}."),
        ("How do I switch on the {thing}?", "How does the {thing} work?", "What must I do first with the {thing}?", "How do I use the {thing}?"),
    ),
    (
        ("The {event} starts at {t} in the {place}.", "The {event} takes place on {d} at {t}.", "We meet for the {event} in front of the {place} at {t}."),
        ("When does the {event} begin?", "Where is the {event}?", "At what time do we meet?", "On which day is the {event}?"),
    ),
    (
        ("The {event} lasts {s}.", "It takes {s} to get from the {place} to the {place}.", "Allow {s} for the {event}."),
        ("How long does the {event} take?", "How much time do I need for the {event}?", "How far is it to the {place}?"),
    ),
    (
        ("The {event} is cancelled when it rains.", "In bad weather the {event} moves to the {place}.", "If there is a storm, the {place} is closed."),
        ("What happens if the weather is bad?", "Does the {event} take place in the rain?", "It is raining, where do we go?"),
    ),
    (
        ("Please bring a {thing} and a {thing} to the {event}.", "Everyone needs a {thing} for the {event}.", "Do not forget your {thing}."),
        ("What do I need for the {event}?", "What should I bring?", "Which things must I take along?", "Do I need a {thing}?"),
    ),
    (
        ("Register for the {event} by {d}.", "Send your form for the {event} to the {person}.", "You can sign up for the {event} at the {place}."),
        ("How can I register for the {event}?", "What is the deadline for the {event}?", "Where do I sign up?", "Whom do I write to about the {event}?"),
    ),
    (
        ("To cancel the {event}, call us {s} ahead.", "Whoever does not cancel in time pays {m}.", "You can cancel your visit to the {place} free of charge until {d}."),
        ("How do I cancel?", "What if I cannot come to the {event}?", "What happens when I do not show up?", "Until when can I call off my visit?"),
    ),
    (
        ("With {illness}, stay in bed and drink a lot.", "Call the {person} if the {illness} lasts longer than {s}.", "Against {illness}, a warm drink and rest help."),
        ("What helps against {illness}?", "I suffer from {illness}, what should I do?", "When should I see somebody about my {illness}?"),
    ),
    (
        ("Children under {s} must come with an adult.", "The {event} is suitable for children from six years on.", "You must be eighteen to use the {thing}."),
        ("How old do I have to be?", "Is it suitable for kids?", "May my daughter use the {thing} by herself?", "From what age is the {event}?"),
    ),
    (
        ("You can pay in cash or by card.", "We accept only cash at the {place}.", "The bill for the {thing} is sent by mail, payable within {s}."),
        ("How can I pay?", "Do you take credit cards?", "Can I pay without cash?", "When do I have to settle the bill?"),
    ),
    (
        ("The {thing} weighs 12 kilograms and is 80 centimeters wide.", "The {thing} is two meters long.", "The {place} has room for forty people."),
        ("How heavy is the {thing}?", "How big is the {thing}?", "What are the measurements of the {thing}?", "How many people fit into the {place}?"),
    ),
    (
        ("Park behind the {place}; the first hour is free.", "There is no parking at the {place}, please come by bus.", "Leave your car in the garage next to the {place}."),
        ("Where can I park?", "Is there a place for my car?", "How do I get to the {place}?", "Can I come by car?"),
    ),
    (
        ("Keep the {thing} away from children.", "Do not touch the {thing} while it is hot.", "Never leave the {thing} without supervision."),
        ("Is the {thing} dangerous?", "What must I watch out for with the {thing}?", "Is the {thing} safe for children?"),
    ),
    (
        ("The {thing} is delivered to your door within {s}.", "Delivery of the {thing} costs {m}.", "You can pick up the {thing} yourself at the {place}."),
        ("How long does the delivery take?", "Can you bring the {thing} to my house?", "What is the shipping fee?", "Where can I collect the {thing}?"),
    ),
]


def everyday_facts(synsets: list, dictionary: list, count: int, rng: random.Random) -> list:
    """(question, statement): both about the same things, sometimes by another name."""
    nouns = _nouns(synsets, set(dictionary))
    facts = []
    for _ in range(count):
        statements, questions = rng.choice(PATTERNS)
        names = {slot: rng.sample(nouns[slot], 2) for slot in SLOTS}
        values = {"t": rng.sample(TIMES, 2), "d": [rng.choice(DAYS)], "s": [rng.choice(SPANS)], "m": [rng.choice(SUMS)]}
        facts.append((_filled(rng.choice(questions), names, values, True, rng), _filled(rng.choice(statements), names, values, False, rng)))
    return facts


def _filled(pattern: str, names: dict, values: dict, other_names: bool, rng: random.Random) -> str:
    """The slots filled in order: a noun by its synset's first word, or with `other_names` sometimes by another word for it."""
    used = {}

    def fill(match) -> str:
        slot = match[1]
        use = used[slot] = used.get(slot, -1) + 1
        if slot in values:
            return values[slot][use % len(values[slot])]
        words = names[slot][use % 2]
        return rng.choice(words) if other_names and rng.random() < 0.4 else words[0]

    text = re.sub(r"\{(\w+)\}", fill, pattern)
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def _nouns(synsets: list, common: set) -> dict:
    """For each slot, lists of words for one thing: a common word, then its synonyms and the name of its kind, where these are common, too."""
    by_id = {s.id: s for s in synsets}
    nouns = {slot: [] for slot in SLOTS}
    for synset in synsets:
        words = [word for word in synset.lemmas if word in common]
        if synset.id[0] != "n" or not words:
            continue
        ancestors, at = [], synset
        while at.hypernyms and len(ancestors) < 12:
            at = by_id[at.hypernyms[0]]
            ancestors.append(at.lemmas)
        kinds = [name for name in ancestors[0] if name in common] if ancestors else []
        known = {name for names in ancestors for name in names}
        for slot, roots in SLOTS.items():
            if any(root.replace("_", " ") in known for root in roots.split()):
                nouns[slot].append(words + kinds)
    return nouns

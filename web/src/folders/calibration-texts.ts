/**
 * English sentences and phrases of many kinds. `quantize` fits matrices in 2 to 4 bits to the inputs that they have for
 * these texts, besides those of its caller. None of them is in a set of texts with which the loss is measured.
 * As lines of one string, because minifiers join the strings of a list to a line that is too long for consoles.
 */
export const CALIBRATION_TEXTS: readonly string[] = `\
The Danube rises in the Black Forest and flows through ten countries before it reaches the Black Sea.
A glacier moves slowly downhill under its own weight and carries rocks of all sizes with it.
The capital of Australia is Canberra, although Sydney and Melbourne are much larger.
Volcanic soil is fertile, which is why people settle on the slopes of active volcanoes in spite of the danger.
Iceland gets most of its electricity from rivers and from the heat of the earth.
Where is the deepest lake in the world?
The Sahara was green six thousand years ago, with lakes, hippos and herds of cattle.
Earthquakes cannot be predicted to the day, but the regions in which they occur are well known.
The moon always shows us the same side because it turns once on its axis in each orbit.
Light from the sun takes a little more than eight minutes to reach us.
Water expands when it freezes, so ice floats and pipes burst in winter.
Plants turn carbon dioxide and water into sugar with the energy of sunlight.
The mass of an atom is concentrated in its nucleus, which is ten thousand times smaller than the atom itself.
Why is the sky blue during the day and red in the evening?
Sound travels about four times faster in water than in air.
A catalyst speeds up a chemical reaction without being consumed by it.
The researchers measured the concentration of nitrate in 84 wells and found a clear decline after 2015.
Our results do not support the hypothesis that the two proteins interact directly.
Bacteria exchange genes with one another, which helps resistance to antibiotics to spread.
Octopuses have three hearts and blue blood.
Swifts sleep while they fly and land only to breed.
Wolves have returned to the valley, and shepherds have begun to keep guard dogs again.
The larvae feed on oak leaves and pupate in the ground in early summer.
How long do elephants carry their young?
The patient was admitted with chest pain, shortness of breath and a fever of 39.4 degrees.
High blood pressure usually causes no symptoms for years but damages the heart and the kidneys.
Vaccination reduced the number of measles cases by more than ninety percent within a decade.
She has been allergic to peanuts since she was a child and always carries an injector.
What are the side effects of this drug in elderly people?
A balanced diet, regular exercise and enough sleep lower the risk of diabetes.
The surgeon removed the tumor completely, and no further therapy was necessary.
Physical therapy helped him to move his shoulder again after the accident.
The treaty of 1648 ended a war that had devastated the middle of Europe for thirty years.
Printing with movable type made books cheap enough for merchants and craftsmen.
The pharaoh's tomb was discovered almost intact in November 1922.
Roman engineers built aqueducts that brought water to the cities from springs many miles away.
When did women get the right to vote in New Zealand?
The empire collapsed within a few years of the death of its founder.
Thousands of families left the island during the famine and crossed the Atlantic.
The railway reached the town in 1869 and changed its economy completely.
Parliament rejected the bill by 312 votes to 287 late on Thursday night.
The prime minister announced her resignation after weeks of protests in the capital.
Police arrested three men in connection with the robbery of a jewelry store in the city center.
Heavy rain caused floods in the south of the country, and hundreds of people had to leave their homes.
The company will cut 2,400 jobs and close two of its factories by the end of next year.
Inflation fell to 2.1 percent in October, the lowest level for more than two years.
Shares of the carmaker lost nine percent after the publication of its quarterly figures.
The central bank left interest rates unchanged, as most economists had expected.
Fishermen and environmental groups have agreed on new limits for cod and herring.
Is it a good time to invest in government bonds?
You should spread your savings over several kinds of investment.
The invoice is payable within fourteen days without any deduction.
The tenant shall return the apartment in the condition in which it was received, except for ordinary wear.
Neither party is liable for delays caused by circumstances beyond its control.
The court dismissed the appeal because the claimant had missed the deadline.
Personal data may be processed only for the purpose for which they were collected.
The defendant denied that he had ever met the witness.
A patent gives its owner the exclusive right to an invention for twenty years.
She scored the winning goal two minutes before the final whistle.
The marathon was won by a runner from Kenya in two hours and six minutes.
He broke the world record in the long jump by three centimeters.
The home team lost the first two sets but came back to win the match in the fifth.
Who won the tournament last year?
Training at high altitude increases the number of red blood cells.
The goalkeeper saved a penalty and was carried off the field by her teammates.
The novel tells the story of three sisters who inherit a run-down hotel by the sea.
I could not put this book down and finished it in a single weekend.
The plot is thin, the dialogue wooden, and the ending makes no sense at all.
The second movement begins with a quiet melody of the clarinet above muted strings.
Her paintings show empty streets at dawn in pale, almost transparent colors.
The director shot the whole film in black and white with a handheld camera.
A sonnet has fourteen lines and a fixed pattern of rhymes.
Which instrument did the composer play himself?
The band released its first album in 1991 and split up six years later.
The theater was renovated after the fire and now seats nine hundred people.
The battery lasts two days, but the screen is hard to read in bright light.
Great little speaker for the price, although the bass is a bit weak.
It stopped working after three weeks, and the seller does not answer my messages.
The shoes look exactly as in the picture and fit perfectly.
Terrible service: we waited for an hour, and the soup was cold.
Lovely place with friendly owners, and the view from the terrace is breathtaking.
I would not recommend this vacuum cleaner to anyone with pets.
The delivery came a day early, and everything was well packed.
How do I connect the headphones to two devices at the same time?
Does the warranty cover damage by water?
My order number is 48213, and I have not received a confirmation yet.
Could you please send me the user manual as a PDF?
I forgot my password, and the link in the email does not work.
The app crashes whenever I try to upload a photo from my gallery.
Thank you for your message, we will get back to you as soon as possible.
To cancel your subscription, open the settings and choose Billing.
Your account has been locked after five failed attempts to sign in.
The function returns a list of tuples, sorted by the second element in descending order.
A null pointer exception is thrown if the configuration file does not exist.
Run the tests before you push your changes to the main branch.
The query joins the two tables on the customer's id and groups the result by month.
Each thread needs a lock before it writes to the shared buffer.
How can I convert a string to a date in Python?
The server responds with status 404 when no document has the given name.
Binary search needs a sorted array and takes logarithmic time.
The neural network was trained for twelve epochs on four graphics cards.
The compiler removes code that can never be reached.
Encryption protects the contents of a message, but not the fact that it was sent.
An algorithm is a finite sequence of steps that solves a class of problems.
The sum of the angles of a triangle in the plane is 180 degrees.
There are infinitely many prime numbers.
If two events are independent, the probability that both occur is the product of their probabilities.
The derivative of a constant is zero.
The bridge is 1,280 meters long and carries six lanes of traffic.
The engine produces 150 horsepower and uses 5.8 liters of fuel per hundred kilometers.
Steel is an alloy of iron with a small amount of carbon.
The architect planned the house around a courtyard with an old walnut tree.
Solar panels on the roof cover about two thirds of our consumption.
The pump must be switched off before the valve is opened.
Tighten the four screws crosswise and check that the wheel turns freely.
A transformer changes the voltage of an alternating current.
Do not exceed the maximum load printed on the label.
The wind turbine stands still when the wind is too weak or too strong.
Concrete reaches its full strength only after about four weeks.
Mom, have you seen my blue sweater?
I thought you were coming with us tonight.
No, I have never been to Portugal, but my brother lived in Lisbon for a year.
He looked at her for a long time without saying a word.
Nobody knew where the old man came from or how he earned his living.
She opened the letter with trembling hands and began to read.
The rain had stopped, and the smell of wet grass came through the window.
It was the first time that they had spoken since the funeral.
Let's meet at the cafe opposite the station at half past six.
What a beautiful garden you have!
I am sorry that I am late, the traffic was awful.
Would you mind closing the window?
We laughed so much that our neighbors knocked on the wall.
My grandmother used to tell us stories about her childhood on a farm.
He is afraid of spiders, heights and dentists.
They have been married for forty years and still hold hands.
The children built a castle of sand and decorated it with shells.
Nothing is as boring as waiting at an airport.
The city council plans to turn the former barracks into affordable housing.
More and more people in rural areas have no doctor nearby.
Bilingual children switch between their languages without effort.
Teachers complain that classes are too large and that there is too little time for individual students.
The university offers courses in law, medicine, engineering and the humanities.
How much does it cost to study abroad for a semester?
The exam consists of a written part and an oral part.
Vocabulary is best learned in whole sentences.
The word comes from Latin and originally meant a narrow path.
In Japanese, the verb stands at the end of the sentence.
An idiom is an expression whose meaning does not follow from the meanings of its words.
Religious festivals in this region follow the calendar of the moon.
The monastery was founded in the eleventh century and owns a famous collection of manuscripts.
Philosophers have long argued about whether there is free will.
According to this theory, an action is right if it makes more people happy than any other.
Memory is not a recording; we reconstruct the past every time we recall it.
People who sleep badly make more mistakes and take greater risks.
The survey asked 1,500 adults about their trust in the media.
Advertising works best when we do not notice it.
Supply exceeds demand, so prices are likely to fall.
The harvest was poor because of frost in April and drought in July.
Coffee grows best in the shade at altitudes between one and two thousand meters.
Olive trees can live for more than a thousand years.
Most of the cheese from this valley is still made by hand from raw milk.
A good bread needs nothing but flour, water, salt and time.
Fresh ginger gives the curry its sharp, lemony taste.
Which wine goes well with grilled fish?
The ferry to the island takes three hours and does not run in stormy weather.
You need a visa for stays of more than ninety days.
The old town is best explored on foot.
From the summit, you can see as far as the coast on clear days.
Cheap flights from Berlin to Athens
Symptoms of iron deficiency
Used piano in good condition, tuned regularly, to be picked up
Three-room apartment with a balcony near the university
How to remove rust from garden tools
Best practices for remote teams
Minutes of the annual general meeting
Annual rainfall in the Amazon basin
Introduction to organic chemistry
Software engineer, part time, Amsterdam
A small red kite
Climate change and migration
Not every large company is successful.
The meeting was postponed until further notice.
If it had not rained, the match would have taken place.
Either the sensor is broken or the reading is correct.
The more you practice, the easier it becomes.
Although the evidence was weak, the jury found him guilty.
It is cheaper, but not better, than the previous model.
The museum bought the painting that the collector had lent it.
Two of the five samples were contaminated and had to be thrown away.
Since the beginning of the year, the number of cyclists has doubled.
The man who repaired our roof also plays the violin in an orchestra.
Nobody except the pilot noticed that one of the engines had failed.
Her opinion differs from that of her colleagues in almost every respect.
The committee will publish its recommendations in the first week of May, together with the data on which they are based.
Astronomers have found a planet of about the size of the earth whose orbit around a dim red star takes eleven days.
Because the harbor freezes every winter, icebreakers have to keep a channel open for the ships that supply the northern villages.`.split(
  '\n',
);

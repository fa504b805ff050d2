"""Word lists from which corpus.py builds its questions.

The order of every list matters: a seeded generator picks by index, so inserting a word changes the corpus.
"""

NAMES = (
    "Ada Alan Alma Amir Anya Arun Bea Boris Carla Chen Clara Dan Dora Elif Emma Enzo Eva Farid Femi Finn "
    "Gita Hana Hugo Ida Igor Ines Ivan Jana Jonas Jun Kaya Kofi Lena Leo Lin Lucia Luka Maya Mila Milo Nadia "
    "Nils Nina Noor Olga Omar Oscar Petra Priya Rafa Rosa Ruth Sami Sara Sofia Tara Theo Tom Uma Vera Viktor "
    "Wen Yara Yusuf Zara Zoe"
).split()

# Country to capital. An underscore is a space.
_CAPITALS = (
    "France:Paris Italy:Rome Spain:Madrid Portugal:Lisbon Germany:Berlin Austria:Vienna Poland:Warsaw "
    "Hungary:Budapest Greece:Athens Norway:Oslo Sweden:Stockholm Finland:Helsinki Denmark:Copenhagen "
    "Ireland:Dublin Iceland:Reykjavik Belgium:Brussels Switzerland:Bern Czechia:Prague Slovakia:Bratislava "
    "Slovenia:Ljubljana Croatia:Zagreb Serbia:Belgrade Bulgaria:Sofia Romania:Bucharest Ukraine:Kyiv Latvia:Riga "
    "Lithuania:Vilnius Estonia:Tallinn Turkey:Ankara Egypt:Cairo Morocco:Rabat Tunisia:Tunis Algeria:Algiers "
    "Kenya:Nairobi Ghana:Accra Nigeria:Abuja Senegal:Dakar Ethiopia:Addis_Ababa Uganda:Kampala Rwanda:Kigali "
    "Japan:Tokyo China:Beijing India:Delhi Nepal:Kathmandu Thailand:Bangkok Vietnam:Hanoi Malaysia:Kuala_Lumpur "
    "Indonesia:Jakarta Philippines:Manila Mongolia:Ulaanbaatar Iran:Tehran Iraq:Baghdad Jordan:Amman Qatar:Doha "
    "Oman:Muscat Canada:Ottawa Mexico:Mexico_City Cuba:Havana Jamaica:Kingston Panama:Panama_City "
    "Colombia:Bogota Peru:Lima Chile:Santiago Bolivia:Sucre Ecuador:Quito Uruguay:Montevideo Paraguay:Asuncion "
    "Argentina:Buenos_Aires Brazil:Brasilia Australia:Canberra Fiji:Suva"
)
CAPITALS = dict(pair.replace("_", " ").split(":") for pair in _CAPITALS.split(" "))
CITIES = sorted(set(CAPITALS.values()))

OPPOSITES = [
    pair.split(":")
    for pair in (
        "hot:cold big:small fast:slow happy:sad old:young light:dark open:closed early:late high:low hard:soft "
        "full:empty clean:dirty rich:poor strong:weak near:far wet:dry loud:quiet deep:shallow thick:thin wide:narrow "
        "sharp:blunt sweet:bitter true:false first:last day:night north:south east:west up:down left:right "
        "buy:sell win:lose push:pull begin:end give:take love:hate remember:forget accept:reject"
    ).split()
]

WORDS = (
    "river stone lamp garden window silver paper bridge forest copper violin pepper candle mirror button "
    "ladder basket pillow rocket castle island market pocket ribbon saddle temple tunnel valley wagon winter "
    "anchor barrel carpet desert engine feather guitar hammer insect jacket kettle lemon marble needle orange "
    "pencil quilt rabbit shovel turtle umbrella velvet walnut yellow zebra"
).split()

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

ANIMALS = "fox owl bear hare crow wolf mole frog deer swan goat duck lynx toad seal".split()
THINGS = "lantern compass kite drum map bell boat key book coin flute rope mirror basket clock".split()
PLACES = "forest village harbour valley meadow market castle lighthouse garden mountain desert island".split()
FEELINGS = "proud tired brave lonely curious gentle clever hungry patient cheerful".split()

GOOD = "excellent wonderful delightful superb charming brilliant lovely perfect".split()
BAD = "terrible awful boring dreadful broken useless disappointing horrible".split()
PRODUCTS = "film book phone meal hotel chair song game jacket course".split()
JOBS = "engineer doctor teacher baker pilot painter farmer lawyer nurse chemist".split()
COUNTABLES = ["apples", "coins", "books", "pencils", "stamps", "marbles"]

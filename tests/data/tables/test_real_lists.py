"""Class lists and tags as they are: names stay whole or are refused, tags are split or refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.tables.cells import parse_cells

_CLASS_LISTS = {
    "coco": (
        "person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|"
        "fire hydrant|stop sign|parking meter|bench|bird|cat|dog|horse|sheep|cow|"
        "elephant|bear|zebra|giraffe|backpack|umbrella|handbag|tie|suitcase|frisbee|skis|"
        "snowboard|sports ball|kite|baseball bat|baseball glove|skateboard|surfboard|"
        "tennis racket|bottle|wine glass|cup|fork|knife|spoon|bowl|banana|apple|sandwich|"
        "orange|broccoli|carrot|hot dog|pizza|donut|cake|chair|couch|potted plant|bed|"
        "dining table|toilet|tv|laptop|mouse|remote|keyboard|cell phone|microwave|oven|"
        "toaster|sink|refrigerator|book|clock|vase|scissors|teddy bear|hair drier|"
        "toothbrush"
    ),
    "imagenet": (
        "tench, Tinca tinca|goldfish, Carassius auratus|"
        "great white shark, white shark, man-eater, man-eating shark, Carcharodon carcharias|"
        "tiger shark, Galeocerdo cuvieri|hammerhead, hammerhead shark|"
        "electric ray, crampfish, numbfish, torpedo|cock|hen|ostrich, Struthio camelus|"
        "brambling, Fringilla montifringilla|house finch, linnet, Carpodacus mexicanus|"
        "junco, snowbird|indigo bunting, indigo finch, indigo bird, Passerina cyanea|crane|"
        "crane bird|maillot|maillot, tank suit|sunglass|sunglasses, dark glasses, shades|"
        "Egyptian cat|cougar, puma, catamount, mountain lion, painter, panther, Felis concolor|"
        "bow tie, bow-tie, bowtie|toilet tissue, toilet paper, bathroom tissue"
    ),
    "cub": (
        "Black footed Albatross|Laysan Albatross|Sooty Albatross|Groove billed Ani|"
        "Crested Auklet|Least Auklet|Parakeet Auklet|Rhinoceros Auklet|Brewer Blackbird|"
        "Red winged Blackbird|Rusty Blackbird|Yellow headed Blackbird|Bobolink|Indigo Bunting|"
        "Lazuli Bunting|Painted Bunting|Cardinal|Spotted Catbird|Gray Catbird|"
        "Yellow breasted Chat"
    ),
    "inaturalist": (
        "Quercus robur|Quercus alba|Quercus rubra|Acer rubrum|Acer saccharum|Rosa canina L.|"
        "Poa annua L.|Danaus plexippus|Vanessa atalanta|Vanessa cardui|Canis lupus familiaris|"
        "Canis lupus|Felis catus"
    ),
    "arxiv": ("cs.CV|cs.LG|cs.AI|cs.CL|stat.ML|math.OC|q-bio|q-bio.NC|eess.IV|physics.med-ph|astro-ph.GA"),
    "flowers": (
        "pink primrose|hard-leaved pocket orchid|canterbury bells|sweet pea|english marigold|"
        "tiger lily|moon orchid|bird of paradise|monkshood|globe thistle|snapdragon|"
        "colt's foot|king protea|yellow iris|globe-flower|purple coneflower|peruvian lily|"
        "fire lily|red ginger|grape hyacinth|corn poppy|love in the mist|black-eyed susan|"
        "bishop of llandaff|canna lily|toad lily|blackberry lily"
    ),
    "food": (
        "apple_pie|baby_back_ribs|beef_carpaccio|crème_brûlée|fish_and_chips|hot_and_sour_soup|pad_thai"
    ),
    "shop": (
        "Home & Garden|Health & Beauty|Toys & Games|Sports & Outdoors|Books|"
        "Clothing, Shoes & Jewelry|Pet Supplies|Home & Kitchen|Tools & Home Improvement|"
        "Arts, Crafts & Sewing"
    ),
    "paths": ("animal/dog|animal/cat|animal/bird/duck|plant/rose|plant/tree|vehicle/car"),
    "music": ("R&B|AC/DC|Rock 'n' Roll|Drum & Bass|Hip-Hop/Rap|Jazz|Classical|Rock"),
    "german": (
        "Straßenbahnhaltestelle|Fußgängerüberweg|Ein- und Ausfahrt|Rad- und Gehweg|Baum (Laub)|"
        "Baum (Nadel)|Haus, bewohnt|Haus, leer|Müll|Grünfläche"
    ),
    "files": ("img.png|cat.jpg|a_1.tif|n02084071|n02085620-Chihuahua|C:\\data\\dog"),
    "languages": ("C|C++|C#|F#|.NET|Objective-C|PL/SQL|T-SQL|Node.js|R"),
    "sizes": ("1/2 inch|3/4 inch|1 inch|2x4|M8 x 20|10+|<5|>=5|50%"),
    "clothes": ("T-shirt/top|Trouser|Pullover|Dress|Coat|Sandal|Shirt|Sneaker|Bag"),
    "words": ("n/a-like|None of these|Nancy|nano|null island|unknown bird|no|yes"),
}
CLASS_LISTS = {name: text.split("|") for name, text in _CLASS_LISTS.items()}

_TAGS = {
    "booru": (" ", ("1girl|solo|smile|long_hair|blush|hat|:)|;)|;_;|:d|^_^|cat_ears|tree|sky")),
    "coco by semicolons": (";", ("person|traffic light|car|stop sign|dog|bus|dining table")),
    "genres by bars": ("|", ("Action|Adventure|Sci-Fi|Film-Noir|Children's|Drama|IMAX")),
    "genres by commas": (", ", ("Action|Comedy|Drama|Science Fiction|TV Movie|Horror|Music")),
    "hashtags": (" ", ("#beach|#sun|#dog|#nofilter|#2024|#tbt|#été")),
    "attribute numbers": (" ", ("13|147|616|813|1059|51|369")),
    "diseases": (" ", ("scab|healthy|frog_eye_leaf_spot|complex|rust|powdery_mildew")),
    "chest": ("|", ("Atelectasis|Effusion|No Finding|Pleural_Thickening|Infiltration|Mass")),
    "full-width": ("、", ("犬|猫|海辺|空|夕焼け|山")),
    "subjects": (" / ", ("dog|beach|sea|traffic light|sun|old town")),
    "plus": (" + ", ("dog|beach|sea|traffic light|sun|old town")),
    "lines": ("\n", ("dog|beach|sea|traffic light|sun|old town")),
}
TAGS = {name: (separator, text.split("|")) for name, (separator, text) in _TAGS.items()}
TAGS["go terms"] = (";", [f"GO:000{number}" for number in range(5500, 5540)])


def read(cells, plural):
    """Names in each distinct cell, or the message with which they are refused."""
    distinct = [*dict.fromkeys(cells)]
    counts = np.array([cells.count(cell) for cell in distinct])
    try:
        reading = parse_cells(distinct, counts, "x.csv: column 'x'", plural=plural)
    except InputError as error:
        return {}, str(error)
    return dict(zip(distinct, reading.names, strict=True)), ""


@pytest.mark.parametrize("plural", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 50])
@pytest.mark.parametrize("names", CLASS_LISTS.values(), ids=CLASS_LISTS)
def test_names_of_classes_stay_whole_or_are_refused(names, rows, plural):
    found, refusal = read(names * rows, plural)
    assert "pass data.separator=''" in refusal or found == {name: (name,) for name in names}


@pytest.mark.parametrize(
    "names", ["coco", "inaturalist", "arxiv", "flowers", "food", "files", "words", "clothes"]
)
def test_names_of_classes_that_are_not_refused(names):
    assert not read(CLASS_LISTS[names] * 20, plural=False)[1]


@pytest.mark.parametrize("plural", [False, True])
@pytest.mark.parametrize("rows", [10, 30, 300])
@pytest.mark.parametrize(("separator", "names"), TAGS.values(), ids=TAGS)
def test_tags_are_split_or_refused(separator, names, rows, plural):
    draw = random.Random(rows)
    some = [tuple(dict.fromkeys(draw.choices(names, k=draw.randint(1, 4)))) for _ in range(rows)]
    cells = [separator.join(tags) for tags in some]
    found, refusal = read(cells, plural)
    if refusal:
        assert "pass data.separator" in refusal
        assert rows < 30 or rows < len(names)
    else:
        hashtags = [tuple(name.removeprefix("#") for name in tags) for tags in some]
        assert [found[cell] for cell in cells] in (some, hashtags)

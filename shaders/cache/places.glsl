// Where the tokens of an item begin: at the step state's position for all items, or at a place of each item's own. After
// the push block, whose `slots` is 0 for the former, and the buffer State of uints `state_words`: the step state, or
// places u32 [items, 4], each (slot of the cache, furthest position before this run, 0, position), as a step state
// begins. A position of 0xffffffff: the item has no tokens.
const uint kPlaceWords = 4u;
uint place_word(uint item, uint word) { return state_words[(p.slots == 0u ? 0u : item * kPlaceWords) + word]; }
// Which of the caches is an item's; one past the last is the last.
uint place_slot(uint item) { return p.slots == 0u ? item : min(place_word(item, 0u), p.slots - 1u); }
uint place_furthest(uint item) { return place_word(item, 1u); }
uint place_position(uint item) { return place_word(item, 3u); }

#include <nlohmann/json.hpp>

#include "tests/fuzz/mutate/mutate.h"

namespace graft::fuzz {
namespace {

using Json = nlohmann::ordered_json;

void collect(Json& at, std::vector<Json*>& all) {
  all.push_back(&at);
  if (at.is_structured()) {
    for (Json& child : at) collect(child, all);
  }
}

Json odd_value(Random& random) {
  switch (random.below(9)) {
    case 0: return nullptr;
    case 1: return random.one_in(2);
    case 2: return static_cast<std::int64_t>(extreme_integer(random));
    case 3: return extreme_integer(random);
    case 4: return extreme_number(random);
    case 5: return odd_text(random);
    case 6: return Json::array();
    case 7: return Json::object();
    default: {
      Json deep = 1;
      for (std::size_t depth = random.below(90); depth > 0; --depth) {
        deep = random.one_in(2) ? Json::array({deep}) : Json{{"a", deep}};
      }
      return deep;
    }
  }
}

void change_number(Json& number, Random& random) {
  if (number.is_number_float() && random.one_in(2)) {
    number = extreme_number(random);
  } else {
    const std::uint64_t near = number.is_number_integer() ? number.get<std::uint64_t>() : 1;
    number = static_cast<std::int64_t>(extreme_integer(random, near));
  }
}

void change_text(Json& text, Random& random) {
  std::string changed = text.get<std::string>();
  random.one_in(3) ? void(changed = odd_text(random)) : change_bytes(changed, random);
  text = changed;
}

void change_object(Json& object, Random& random) {
  auto member = object.begin();
  std::advance(member, static_cast<std::ptrdiff_t>(random.below(object.size())));
  const std::string key = member.key();
  const Json value = member.value();
  const std::string other = std::next(object.begin(), static_cast<std::ptrdiff_t>(random.below(object.size()))).key();
  switch (random.below(4)) {
    case 0: object.erase(key); break;
    case 1: object[odd_text(random)] = value; break;
    case 2: object[other].swap(object[key]); break;
    default: object[key + "_"] = value;
  }
}

void change_array(Json& array, Random& random) {
  const std::size_t at = random.below(array.size()), other = random.below(array.size());
  switch (random.below(4)) {
    case 0: array.erase(at); break;
    case 1:
      for (std::size_t i = 1 + random.below(8); i > 0; --i) array.push_back(Json(array[at]));
      break;
    case 2: std::swap(array[at], array[other]); break;
    default: array.insert(array.begin() + static_cast<std::ptrdiff_t>(at), odd_value(random));
  }
}

}  // namespace

std::string mutate_json(std::string_view text, Random& random) {
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return {};
  for (std::size_t left = 1 + random.below(3); left > 0; --left) {
    std::vector<Json*> all;
    collect(document, all);
    Json& at = *random.pick(all);
    if (random.one_in(4)) {
      at = random.one_in(2) ? odd_value(random) : Json(*random.pick(all));
    } else if (at.is_number()) {
      change_number(at, random);
    } else if (at.is_string()) {
      change_text(at, random);
    } else if (at.is_boolean()) {
      at = !at.get<bool>();
    } else if (at.is_object() && !at.empty()) {
      change_object(at, random);
    } else if (at.is_array() && !at.empty()) {
      change_array(at, random);
    } else {
      at = odd_value(random);
    }
  }
  std::string out = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  // What a document in memory cannot hold: a member twice.
  if (random.one_in(16) && out.ends_with('}') && !document.empty()) {
    out.insert(out.size() - 1, "," + Json(document.begin().key()).dump(-1, ' ', false, Json::error_handler_t::replace) +
                                   ":" + std::to_string(extreme_integer(random)));
  }
  return out;
}

}  // namespace graft::fuzz

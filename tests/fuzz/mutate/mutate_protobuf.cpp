#include <optional>

#include "tests/fuzz/mutate/mutate.h"

namespace graft::fuzz {
namespace {

struct Field {
  std::uint64_t number = 0;
  unsigned wire = 0;        // 0 varint, 1 eight bytes, 2 bytes behind their length, 5 four bytes
  std::uint64_t value = 0;  // of all but bytes
  std::string bytes;
  std::vector<Field> fields;  // instead of bytes, where these are a message
};

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(in.front());
    in.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

std::string written(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    add_varint(out, field.number << 3 | field.wire);
    if (field.wire == 0) add_varint(out, field.value);
    if (field.wire == 1) add_number(out, field.value);
    if (field.wire == 5) add_number(out, static_cast<std::uint32_t>(field.value));
    if (field.wire != 2) continue;
    const std::string bytes = field.fields.empty() ? field.bytes : written(field.fields);
    add_varint(out, bytes.size());
    out += bytes;
  }
  return out;
}

bool is_plain_text(std::string_view bytes) {
  for (const char c : bytes) {
    if (c < ' ' || c > '~') return false;
  }
  return true;
}

// The wire format does not tell messages from bytes: what reads as one and writes back the same is taken for one.
std::optional<std::vector<Field>> read_message(std::string_view in, int depth) {
  std::vector<Field> out;
  while (!in.empty()) {
    const auto key = take_varint(in);
    if (!key || *key < 8 || *key >> 3 > 10000) return std::nullopt;
    Field field{.number = *key >> 3, .wire = static_cast<unsigned>(*key & 7)};
    if (field.wire == 0) {
      const auto value = take_varint(in);
      if (!value) return std::nullopt;
      field.value = *value;
    } else if (field.wire == 1 || field.wire == 5) {
      const std::size_t size = field.wire == 1 ? 8 : 4;
      if (in.size() < size) return std::nullopt;
      field.value = size == 8 ? number_at<std::uint64_t>(in, 0) : number_at<std::uint32_t>(in, 0);
      in.remove_prefix(size);
    } else if (field.wire == 2) {
      const auto size = take_varint(in);
      if (!size || *size > in.size()) return std::nullopt;
      field.bytes = in.substr(0, *size);
      in.remove_prefix(*size);
      if (depth < 16 && !is_plain_text(field.bytes)) {
        auto inner = read_message(field.bytes, depth + 1);
        if (inner && written(*inner) == field.bytes) field.fields = std::move(*inner);
      }
    } else {
      return std::nullopt;
    }
    out.push_back(std::move(field));
  }
  return out;
}

// Where a field stands: in the list of its message.
struct Place {
  std::vector<Field>* list = nullptr;
  std::size_t index = 0;
  Field& field() const { return (*list)[index]; }
};

void collect_fields(std::vector<Field>& list, std::vector<Place>& all) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    all.push_back({&list, i});
    collect_fields(list[i].fields, all);
  }
}

// Names say what belongs together: a name becomes another of the same file rather than a new one.
void change_field_bytes(Field& field, const std::vector<Place>& all, Random& random) {
  if (random.one_in(2)) {
    for (int tries = 0; tries < 50; ++tries) {
      const Field& other = all[random.below(all.size())].field();
      if (other.wire != 2 || !other.fields.empty() || (other.number != field.number && !random.one_in(8))) continue;
      field.bytes = std::string(other.bytes);
      return;
    }
  }
  random.one_in(3) ? void(field.bytes = odd_text(random)) : change_bytes(field.bytes, random);
}

void change_field(const Place& place, const std::vector<Place>& all, Random& random) {
  Field& field = place.field();
  std::vector<Field>& list = *place.list;
  const auto here = list.begin() + static_cast<std::ptrdiff_t>(place.index);
  switch (random.below(10)) {
    case 0: list.erase(here); return;
    case 1: {
      const Field copy = field;
      list.insert(here, 1 + random.below(4), copy);
      return;
    }
    case 2: {
      const Field copy = all[random.below(all.size())].field();
      list.insert(here, copy);
      return;
    }
    case 3: {
      const std::size_t other = random.below(list.size());
      std::swap(list[place.index], list[other]);
      return;
    }
    case 4: field.number = random.one_in(4) ? extreme_integer(random) & 0xffff : 1 + random.below(26); return;
    default: break;
  }
  if (field.wire != 2) {
    field.value = extreme_integer(random, field.value);
  } else if (field.fields.empty()) {
    change_field_bytes(field, all, random);
  } else if (random.one_in(4)) {
    // Deeper than readers may follow.
    for (std::size_t depth = 1 + random.below(120); depth > 0; --depth) {
      Field outer{.number = field.number, .wire = 2};
      outer.fields.push_back(field);
      field = std::move(outer);
    }
  } else {
    field = Field(all[random.below(all.size())].field());
  }
}

}  // namespace

std::string mutate_protobuf(std::string_view bytes, Random& random) {
  auto message = read_message(bytes, 0);
  if (!message || message->empty()) return {};
  for (std::size_t left = 1 + random.below(3); left > 0 && !message->empty(); --left) {
    std::vector<Place> all;
    collect_fields(*message, all);
    change_field(random.pick(all), all, random);
  }
  return written(*message);
}

}  // namespace graft::fuzz

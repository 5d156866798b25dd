#include <algorithm>
#include <array>
#include <optional>

#include "tests/fuzz/mutate/mutate.h"

namespace graft::fuzz {
namespace {

constexpr std::uint32_t kText = 8, kArray = 9;
constexpr std::array<std::size_t, 13> kNumberBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct Entry {
  std::string key;
  std::uint32_t type = 0;
  std::uint32_t element = 0;       // of an array
  std::vector<std::string> items;  // one, or an array's: texts, or the bytes of numbers
};

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

struct File {
  std::uint32_t version = 3;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;
  std::string data;       // from the aligned start on
  std::uint64_t lie = 0;  // added to a count, where a change asks for it
  bool lie_of_tensors = false;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool failed = false;
  std::size_t at = 0;

  template <class T>
  T number() {
    const std::string_view raw = take(sizeof(T));
    return failed ? T{} : number_at<T>(raw, 0);
  }
  std::string_view take(std::uint64_t size) {
    if (failed || size > bytes_.size() - at) {
      failed = true;
      return {};
    }
    at += size;
    return bytes_.substr(at - size, size);
  }
  std::string text() { return std::string(take(number<std::uint64_t>())); }
  std::string item(std::uint32_t type) {
    if (type == kText) return text();
    if (type >= kNumberBytes.size() || type == kArray) failed = true;
    return failed ? std::string() : std::string(take(kNumberBytes[type]));
  }

 private:
  std::string_view bytes_;
};

std::optional<File> read_file(std::string_view bytes) {
  if (!bytes.starts_with("GGUF")) return std::nullopt;
  Reader in(bytes);
  in.at = 4;
  File file{.version = in.number<std::uint32_t>()};
  const auto tensors = in.number<std::uint64_t>(), entries = in.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < entries && !in.failed; ++i) {
    Entry entry{.key = in.text(), .type = in.number<std::uint32_t>()};
    std::uint64_t count = 1;
    if (entry.type == kArray) {
      entry.element = in.number<std::uint32_t>();
      count = in.number<std::uint64_t>();
    }
    for (std::uint64_t j = 0; j < count && !in.failed; ++j) {
      entry.items.push_back(in.item(entry.type == kArray ? entry.element : entry.type));
    }
    file.entries.push_back(std::move(entry));
  }
  for (std::uint64_t i = 0; i < tensors && !in.failed; ++i) {
    Tensor tensor{.name = in.text()};
    const auto rank = in.number<std::uint32_t>();
    for (std::uint32_t axis = 0; axis < rank && !in.failed; ++axis) tensor.dims.push_back(in.number<std::uint64_t>());
    tensor.type = in.number<std::uint32_t>();
    tensor.offset = in.number<std::uint64_t>();
    file.tensors.push_back(std::move(tensor));
  }
  if (in.failed) return std::nullopt;
  file.data = bytes.substr(std::min(bytes.size(), (in.at + 31) / 32 * 32));
  return file;
}

void add_text(std::string& out, const std::string& text) {
  add_number(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

std::string written(const File& file) {
  std::string out = "GGUF";
  add_number(out, file.version);
  add_number(out, file.tensors.size() + (file.lie_of_tensors ? file.lie : 0));
  add_number(out, file.entries.size() + (file.lie_of_tensors ? 0 : file.lie));
  for (const Entry& entry : file.entries) {
    add_text(out, entry.key);
    add_number(out, entry.type);
    if (entry.type == kArray) {
      add_number(out, entry.element);
      add_number(out, static_cast<std::uint64_t>(entry.items.size()));
    }
    const bool texts = (entry.type == kArray ? entry.element : entry.type) == kText;
    for (const std::string& item : entry.items) texts ? add_text(out, item) : void(out += item);
  }
  for (const Tensor& tensor : file.tensors) {
    add_text(out, tensor.name);
    add_number(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) add_number(out, dim);
    add_number(out, tensor.type);
    add_number(out, tensor.offset);
  }
  out.resize((out.size() + 31) / 32 * 32);
  return out + file.data;
}

void change_item(const Entry& entry, std::string& item, Random& random) {
  const std::uint32_t type = entry.type == kArray ? entry.element : entry.type;
  if (type == kText) {
    random.one_in(4) ? void(item = odd_text(random)) : change_bytes(item, random);
    return;
  }
  const std::uint64_t value = extreme_integer(random, static_cast<std::uint8_t>(item.empty() ? 0 : item[0]));
  for (std::size_t i = 0; i < item.size(); ++i) item[i] = static_cast<char>(value >> (8 * i));
}

void change_entry(File& file, Random& random) {
  Entry& entry = random.pick(file.entries);
  const Entry copy = random.pick(file.entries);
  switch (random.below(8)) {
    case 0: file.entries.erase(file.entries.begin() + (&entry - file.entries.data())); break;
    case 1: file.entries.push_back(copy); break;
    case 2: entry.key = copy.key; break;
    case 3: {  // another value under the same key
      const std::string key = entry.key;
      entry = copy;
      entry.key = key;
      break;
    }
    case 4:
      if (!entry.items.empty() && entry.type == kArray) {
        const std::string item = random.pick(entry.items);
        entry.items.insert(entry.items.begin() + static_cast<std::ptrdiff_t>(random.below(entry.items.size())),
                           1 + random.below(5), item);
      }
      break;
    case 5:
      if (entry.items.size() > 1)
        entry.items.erase(entry.items.begin() + static_cast<std::ptrdiff_t>(random.below(entry.items.size())));
      break;
    default:
      if (!entry.items.empty()) change_item(entry, random.pick(entry.items), random);
  }
}

void change_tensor(File& file, Random& random) {
  Tensor& tensor = random.pick(file.tensors);
  const Tensor copy = random.pick(file.tensors);
  switch (random.below(7)) {
    case 0: file.tensors.erase(file.tensors.begin() + (&tensor - file.tensors.data())); break;
    case 1: file.tensors.push_back(copy); break;
    case 2: tensor.name = random.one_in(3) ? odd_text(random) : copy.name; break;
    case 3: tensor.offset = random.one_in(2) ? copy.offset : extreme_integer(random, tensor.offset); break;
    case 4:
      tensor.type = static_cast<std::uint32_t>(random.one_in(4) ? extreme_integer(random) : random.below(32));
      break;
    case 5: tensor.dims.push_back(extreme_integer(random, 1)); break;
    default:
      if (!tensor.dims.empty()) {
        std::uint64_t& dim = random.pick(tensor.dims);
        dim = extreme_integer(random, dim);
      }
  }
}

}  // namespace

std::string mutate_gguf(std::string_view bytes, Random& random) {
  auto file = read_file(bytes);
  if (!file) return {};
  for (std::size_t left = 1 + random.below(3); left > 0; --left) {
    const std::size_t what = random.below(12);
    if (what < 6 && !file->entries.empty()) {
      change_entry(*file, random);
    } else if (what < 9 && !file->tensors.empty()) {
      change_tensor(*file, random);
    } else if (what == 9) {
      file->lie = extreme_integer(random);
      file->lie_of_tensors = random.one_in(2);
    } else if (what == 10) {
      file->version = static_cast<std::uint32_t>(random.below(5));
    } else {
      change_bytes(file->data, random);
    }
  }
  return written(*file);
}

}  // namespace graft::fuzz

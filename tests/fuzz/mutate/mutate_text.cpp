// Formats of lines, and short headers of text in front of numbers.
#include <algorithm>
#include <cctype>

#include "tests/fuzz/mutate/mutate.h"

namespace graft::fuzz {
namespace {

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    out.emplace_back(text.substr(0, end));
  }
  out.emplace_back(text);
  return out;
}

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) out += (i == 0 ? "" : std::string(1, separator)) + parts[i];
  return out;
}

void change_list(std::vector<std::string>& list, Random& random) {
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size()));
  const std::string copy = *at;
  switch (random.below(4)) {
    case 0: list.erase(at); break;
    case 1: list.insert(at, 1 + random.below(20), copy); break;
    case 2: std::iter_swap(at, list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size()))); break;
    default: list.insert(at, std::string());
  }
}

std::string odd_field(Random& random) {
  constexpr std::string_view kFields[] = {"nan",          "-inf",     "1e999", "1e-400",     "\"",  "\"\"",
                                          "\"a\"b",       "\"a\nb\"", "0x10",  " 1 ",        "1,2", "\r",
                                          "\xef\xbb\xbf", "+1",       "-0",    "2147483648", ";"};
  return random.one_in(3) ? odd_text(random) : std::string(random.pick(kFields));
}

// A whole number somewhere in the text becomes another.
bool change_a_number(std::string& text, Random& random) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return std::isdigit(static_cast<unsigned char>(text[at])) != 0; };
    if (digit(i) && (i == 0 || !digit(i - 1))) starts.push_back(i);
  }
  if (starts.empty()) return false;
  const std::size_t at = random.pick(starts);
  const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
  text.replace(at, end - at, std::to_string(extreme_integer(random, end - at)));
  return true;
}

}  // namespace

std::string mutate_lines(std::string_view text, Random& random) {
  std::vector<std::string> lines = parts_of(text, '\n');
  for (std::size_t left = 1 + random.below(3); left > 0 && !lines.empty(); --left) {
    std::string& line = random.pick(lines);
    if (random.one_in(3)) {
      change_list(lines, random);
    } else if (line.starts_with('{') && random.one_in(2)) {
      if (const std::string changed = mutate_json(line, random); !changed.empty()) line = changed;
    } else if (random.one_in(3)) {
      change_a_number(line, random);
    } else {
      std::vector<std::string> fields = parts_of(line, ',');
      if (random.one_in(2)) {
        random.pick(fields) = odd_field(random);
      } else {
        change_list(fields, random);
      }
      line = joined(fields, ',');
    }
  }
  return joined(lines, '\n');
}

std::string mutate_npy(std::string_view bytes, Random& random) {
  if (bytes.size() < 12 || !bytes.starts_with("\x93NUMPY")) return {};
  const bool first = bytes[6] == 1;
  const std::size_t start = first ? 10 : 12;
  const std::size_t size = first ? number_at<std::uint16_t>(bytes, 8) : number_at<std::uint32_t>(bytes, 8);
  if (size > bytes.size() - start) return {};
  std::string header(bytes.substr(start, size)), data(bytes.substr(start + size));
  switch (random.below(4)) {
    case 0: change_bytes(header, random); break;
    case 1: change_bytes(data, random); break;
    case 2: {
      constexpr std::string_view kTypes[] = {"<f2", "<f4", "<f8", ">f4", ">i8", "<i4",
                                             "|b1", "|u1", "|i1", "<u8", "<c8", "|O"};
      const std::size_t at = header.find("'", header.find(':') + 1);
      if (at != std::string::npos && at + 4 < header.size()) header.replace(at + 1, 3, random.pick(kTypes));
      break;
    }
    default: change_a_number(header, random);
  }
  std::string out(bytes.substr(0, 8));
  const std::size_t told = random.one_in(10) ? extreme_integer(random, header.size()) : header.size();
  first ? add_number(out, static_cast<std::uint16_t>(told)) : add_number(out, static_cast<std::uint32_t>(told));
  return out + header + data;
}

std::string mutate_safetensors(std::string_view bytes, Random& random) {
  if (bytes.size() < 8) return {};
  const auto size = number_at<std::uint64_t>(bytes, 0);
  if (size > bytes.size() - 8) return {};
  std::string header = mutate_json(bytes.substr(8, size), random), data(bytes.substr(8 + size));
  if (header.empty()) return {};
  if (random.one_in(4)) change_bytes(data, random);
  std::string out;
  add_number(out,
             random.one_in(10) ? extreme_integer(random, header.size()) : static_cast<std::uint64_t>(header.size()));
  return out + header + data;
}

}  // namespace graft::fuzz

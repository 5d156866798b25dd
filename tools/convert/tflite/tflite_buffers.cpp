#include "tools/convert/tflite/tflite_buffers.h"

#include <cstdint>
#include <cstring>

#include "platform/base/checked.h"
#include "tools/convert/tflite/tflite_file.h"

namespace graft::convert {
namespace {

constexpr std::size_t kHead = 8;  // the root's offset and the identifier
constexpr std::size_t kAlignment = 16;
constexpr std::size_t kModelFields = 8, kBuffersField = 4;

template <class T>
T read(const std::string& file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}
template <class T>
void write(std::string& file, std::size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}
/// Makes the word at `at` lead to `target`, which lies behind it.
void lead(std::string& file, std::size_t at, std::size_t target) {
  write(file, at, static_cast<std::uint32_t>(target - at));
}

}  // namespace

Result<std::string> with_buffers(const std::string& file, const std::vector<std::string>& added) {
  // The root table, as the verifier has seen it.
  const std::size_t root = read<std::uint32_t>(file, 0);
  const auto vtable = static_cast<std::size_t>(static_cast<std::int64_t>(root) - read<std::int32_t>(file, root));
  const std::size_t slots = read<std::uint16_t>(file, vtable) / 2 - 2;
  const auto field = [&](std::size_t slot) -> std::size_t {
    const std::size_t at = slot < slots ? read<std::uint16_t>(file, vtable + 4 + 2 * slot) : 0;
    return at == 0 ? 0 : root + at;
  };
  for (std::size_t slot = kModelFields; slot < slots; ++slot) {
    if (field(slot) != 0) return unsupported("The file's root has field ", slot, ", which is not known.");
  }
  const std::size_t old_list = field(kBuffersField) + read<std::uint32_t>(file, field(kBuffersField));
  const std::size_t before = read<std::uint32_t>(file, old_list), count = before + added.size();

  // Places in the new file: the root's and the buffers' layout, the root, the list, the buffers, their contents.
  const std::size_t layout = kHead, buffer_layout = layout + 4 + 2 * kModelFields;
  const std::size_t table = align_up(buffer_layout + 6, 4), list = table + 4 + 4 * kModelFields;
  const std::size_t buffers = list + 4 + 4 * count;
  std::vector<std::size_t> contents;
  std::size_t end = buffers + 8 * added.size();
  for (const std::string& bytes : added) {
    contents.push_back(align_up(end + 4, kAlignment) - 4);
    end = contents.back() + 4 + bytes.size();
  }
  const std::size_t shift = align_up(end, kAlignment) - kHead + kHead % kAlignment;
  if (file.size() + shift > kMaxTfliteBytes) return invalid("The TFLite file would be larger than 2 GiB.");

  std::string out(kHead + shift, '\0');
  std::memcpy(out.data(), file.data(), kHead);
  out.append(file, kHead);
  lead(out, 0, table);
  write(out, layout, static_cast<std::uint16_t>(4 + 2 * kModelFields));
  write(out, layout + 2, static_cast<std::uint16_t>(4 + 4 * kModelFields));
  write(out, table, static_cast<std::int32_t>(table - layout));
  for (std::size_t slot = 0; slot < kModelFields; ++slot) {
    if (field(slot) == 0) continue;
    const std::size_t at = table + 4 + 4 * slot;
    write(out, layout + 4 + 2 * slot, static_cast<std::uint16_t>(at - table));
    if (slot == 0) {
      write(out, at, read<std::uint32_t>(file, field(slot)));  // the version
    } else {
      lead(out, at, slot == kBuffersField ? list : field(slot) + read<std::uint32_t>(file, field(slot)) + shift);
    }
  }
  write(out, buffer_layout, std::uint16_t{6});
  write(out, buffer_layout + 2, std::uint16_t{8});
  write(out, buffer_layout + 4, std::uint16_t{4});
  write(out, list, static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < before; ++i) {
    const std::size_t at = old_list + 4 + 4 * i;
    lead(out, list + 4 + 4 * i, at + read<std::uint32_t>(file, at) + shift);
  }
  for (std::size_t i = 0; i < added.size(); ++i) {
    const std::size_t buffer = buffers + 8 * i;
    lead(out, list + 4 + 4 * (before + i), buffer);
    write(out, buffer, static_cast<std::int32_t>(buffer - buffer_layout));
    lead(out, buffer + 4, contents[i]);
    write(out, contents[i], static_cast<std::uint32_t>(added[i].size()));
    std::memcpy(out.data() + contents[i] + 4, added[i].data(), added[i].size());
  }
  return out;
}

}  // namespace graft::convert

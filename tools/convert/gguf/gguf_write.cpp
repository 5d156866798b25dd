#include "tools/convert/gguf/gguf_write.h"

#include "platform/base/checked.h"
#include "platform/os/atomic_write.h"

namespace graft::convert {
namespace {

constexpr std::uint32_t kVersion = 3;

template <typename Number>
void append(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

}  // namespace

bool GgufWriter::begin(std::string_view key, GgufType type) {
  if (!keys_.emplace(key).second) return false;
  put_text(key);
  put(static_cast<std::uint32_t>(type));
  return true;
}

void GgufWriter::put_text(std::string_view text) { append_text(entries_, text); }

template <typename Number>
void GgufWriter::put(Number number) {
  append(entries_, number);
}

template <typename Number>
void GgufWriter::put_array(GgufType element, std::span<const Number> numbers) {
  put(static_cast<std::uint32_t>(element));
  put(std::uint64_t{numbers.size()});
  entries_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

void GgufWriter::add(std::string_view key, std::string_view text) {
  if (begin(key, GgufType::string)) put_text(text);
}

void GgufWriter::add(std::string_view key, std::uint32_t number) {
  if (begin(key, GgufType::u32)) put(number);
}

void GgufWriter::add(std::string_view key, float number) {
  if (begin(key, GgufType::f32)) put(number);
}

void GgufWriter::add(std::string_view key, bool flag) {
  if (begin(key, GgufType::boolean)) put(static_cast<std::uint8_t>(flag));
}

void GgufWriter::add(std::string_view key, std::span<const std::string> texts) {
  if (!begin(key, GgufType::array)) return;
  put(static_cast<std::uint32_t>(GgufType::string));
  put(std::uint64_t{texts.size()});
  for (const std::string& text : texts) put_text(text);
}

void GgufWriter::add(std::string_view key, std::span<const std::int32_t> numbers) {
  if (begin(key, GgufType::array)) put_array(GgufType::i32, numbers);
}

void GgufWriter::add(std::string_view key, std::span<const float> numbers) {
  if (begin(key, GgufType::array)) put_array(GgufType::f32, numbers);
}

void GgufWriter::add(std::string_view key, std::span<const std::byte> bytes) {
  if (begin(key, GgufType::array)) put_array(GgufType::i8, bytes);
}

void GgufWriter::add(std::string_view key, const GgufValue& value) {
  if (!begin(key, value.type)) return;
  const bool array = value.type == GgufType::array;
  const bool texts = array && value.element == GgufType::string;
  if (array) {
    put(static_cast<std::uint32_t>(value.element));
    put(value.count);
  }
  if (texts || value.type == GgufType::string) {
    for (const std::string_view text : value.text) put_text(text);
  } else {
    entries_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  }
}

void GgufWriter::align(std::uint32_t alignment) {
  alignment_ = alignment;
  if (alignment != 32) add("general.alignment", alignment);
}

std::string GgufWriter::header(std::span<const ExportTensor> tensors) const {
  std::string out;
  append(out, kGgufMagic);
  append(out, kVersion);
  append(out, std::uint64_t{tensors.size()});
  append(out, std::uint64_t{keys_.size()});
  out += entries_;
  std::uint64_t at = 0;
  for (const ExportTensor& tensor : tensors) {
    append_text(out, tensor.name);
    const auto dims = tensor.dims();
    append(out, static_cast<std::uint32_t>(dims.size()));
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) append(out, static_cast<std::uint64_t>(*dim));
    append(out, ggml_of_dtype(tensor.dtype));
    append(out, at);
    at = align_up(at + tensor.bytes(), alignment_);
  }
  out.resize(align_up(out.size(), alignment_), '\0');
  return out;
}

template <typename Append>
Status GgufWriter::write_to(std::span<const ExportTensor> tensors, const Told& told, Append append_bytes) const {
  const std::string head = header(tensors);
  GRAFT_TRY(append_bytes(std::as_bytes(std::span(head))));
  const std::string padding(alignment_, '\0');
  for (const ExportTensor& tensor : tensors) {
    GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
    if (told) told(tensor, made);
    if (!made.bytes.empty()) GRAFT_TRY(append_bytes(made.bytes));
    const std::uint64_t missing = align_up(made.bytes.size(), alignment_) - made.bytes.size();
    if (missing != 0) GRAFT_TRY(append_bytes(std::as_bytes(std::span(padding)).first(missing)));
  }
  return ok_status();
}

Status GgufWriter::write(os::FileSystem& files, const std::string& path, std::span<const ExportTensor> tensors,
                         const Told& told) const {
  return os::atomic_write_file(files, path, [&](os::File& file) -> Status {
    return write_to(tensors, told, [&](std::span<const std::byte> bytes) { return file.append(bytes); });
  });
}

Result<std::string> GgufWriter::bytes(std::span<const ExportTensor> tensors) const {
  std::string out;
  GRAFT_TRY(write_to(tensors, {}, [&](std::span<const std::byte> bytes) -> Status {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return ok_status();
  }));
  return out;
}

}  // namespace graft::convert

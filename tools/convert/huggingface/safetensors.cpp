#include "tools/convert/huggingface/safetensors.h"

#include <set>

#include "platform/base/byte_reader.h"
#include "platform/base/checked.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/pytorch/state_dict.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::uint64_t kLargestIndex = std::uint64_t{64} << 20;
constexpr std::size_t kMostDims = 8;
constexpr std::int64_t kMostElements = INT64_MAX;

/// Looks for a name that the outermost object has twice. (A callback of nlohmann's parser would do, but after each
/// object it looks through all members of the one around it.)
struct Names final : nlohmann::json_sax<Json> {
  std::set<std::string, std::less<>> seen;
  std::string twice;
  std::size_t depth = 0;

  bool key(string_t& name) override {
    if (depth == 1 && !seen.insert(name).second && twice.empty()) twice = name;
    return true;
  }
  bool start_object(std::size_t) override { return ++depth > 0; }
  bool end_object() override { return depth-- > 0; }
  bool start_array(std::size_t) override { return ++depth > 0; }
  bool end_array() override { return depth-- > 0; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

/// The header as an object. nlohmann's parser would keep the last of two equal names: these are refused.
Result<Json> parse_header(std::string_view text) {
  GRAFT_TRY(check_json_depth(text));
  Names names;
  const bool valid = Json::sax_parse(text.begin(), text.end(), &names);
  Json header = valid ? Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false) : Json();
  if (!header.is_object()) return corrupt("The header of ", text.size(), " bytes is not a JSON object.");
  if (!names.twice.empty()) return corrupt("The tensor \"", names.twice, "\" appears twice.");
  return header;
}

std::optional<DType> dtype_of(std::string_view name) {
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  return std::nullopt;
}

Result<std::vector<std::int64_t>> integers(const Json& entry, const char* name, std::size_t most) {
  const Json* list = member(entry, name);
  if (list == nullptr || !list->is_array() || list->size() > most) {
    return corrupt("\"", name, "\" is not a list of at most ", most, " integers.");
  }
  std::vector<std::int64_t> out;
  for (const Json& value : *list) {
    GRAFT_TRY_ASSIGN(const std::int64_t number,
                     integer_value(value, cat("An entry of \"", name, "\""), 0, kMostElements));
    out.push_back(number);
  }
  return out;
}

Result<SourceTensor> read_tensor(const Json& entry, DType dtype, std::span<const std::byte> data) {
  SourceTensor out;
  out.dtype = dtype;
  GRAFT_TRY_ASSIGN(out.dims, integers(entry, "shape", kMostDims));
  GRAFT_TRY_ASSIGN(const auto offsets, integers(entry, "data_offsets", 2));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<std::uint64_t>(offsets[1]) > data.size()) {
    return corrupt("\"data_offsets\" do not lie within the ", data.size(), " bytes of data.");
  }
  GRAFT_TRY_ASSIGN(const std::uint64_t needed, bytes_needed(out.dims, dtype));
  const auto given = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  if (given != needed) return corrupt("It has ", given, " bytes where its shape needs ", needed, ".");
  out.bytes = data.subspan(static_cast<std::size_t>(offsets[0]), needed);
  return out;
}

/// The shards that an index names. They must be plain file names, so that nothing outside of the folder is read.
Result<std::set<std::string>> shards_of(std::string_view index) {
  GRAFT_TRY_ASSIGN(const Json json, parse_json(index));
  const Json* map = member(json, "weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) return corrupt("\"weight_map\" is not an object.");
  std::set<std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    const auto* name = file.get_ptr<const std::string*>();
    if (name == nullptr || name->empty() || name->find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
        *name == "." || *name == "..") {
      return corrupt("The file of the tensor \"", tensor, "\" is not the name of a file in the model's folder.");
    }
    out.insert(*name);
  }
  return out;
}

/// The weights of older folders: what lies in the file row by row is used as it is.
Result<SourceTensors> open_checkpoint(os::FileSystem& files, const std::string& path,
                                      std::vector<std::string>& skipped) {
  SourceTensors out;
  GRAFT_TRY_ASSIGN(auto mapped, files.map(path));
  auto dict = read_state_dict(mapped->bytes());
  if (!dict.ok()) return std::move(dict).status().with_context(path);
  for (const StateTensor& tensor : dict->tensors) {
    const auto dtype = tensor.type == ElemType::f32    ? std::optional(DType::f32)
                       : tensor.type == ElemType::f16  ? std::optional(DType::f16)
                       : tensor.type == ElemType::bf16 ? std::optional(DType::bf16)
                                                       : std::nullopt;
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % sizeof(float) == 0;
    if (!dtype || !aligned || !lies_row_by_row(tensor)) {
      skipped.push_back(cat(tensor.name, " (", elem_name(tensor.type), dtype ? ", not row by row)" : ")"));
      continue;
    }
    GRAFT_TRY_ASSIGN(const std::uint64_t bytes, bytes_needed(tensor.dims, *dtype));
    out.by_name.emplace(tensor.name, SourceTensor{tensor.dims, *dtype, tensor.bytes.first(bytes)});
  }
  out.files.push_back(std::move(mapped));
  return out;
}

}  // namespace

Status read_safetensors(std::span<const std::byte> bytes, SourceTensors& out, std::vector<std::string>& skipped) {
  ByteReader reader(bytes);
  GRAFT_TRY_ASSIGN(const std::uint64_t header_bytes, reader.number<std::uint64_t>());
  if (header_bytes > kLargestHeader || header_bytes > reader.left()) {
    return corrupt("Its header has ", header_bytes, " bytes; at most ", kLargestHeader, " and the ", reader.left(),
                   " that follow are possible.");
  }
  GRAFT_TRY_ASSIGN(const std::string_view text, reader.text(header_bytes));
  GRAFT_TRY_ASSIGN(const Json header, parse_header(text));
  const auto data = bytes.subspan(reader.offset());
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto dtype = dtype_of(string_member(entry, "dtype"));
    if (!dtype) {
      skipped.push_back(cat(name, " (", string_member(entry, "dtype"), ")"));
      continue;
    }
    GRAFT_TRY_ASSIGN(SourceTensor tensor,
                     read_tensor(entry, *dtype, data).with_context(cat("In the tensor \"", name, "\"")));
    if (!out.by_name.emplace(name, std::move(tensor)).second) {
      return corrupt("The tensor \"", name, "\" appears twice.");
    }
  }
  return {};
}

Result<SourceTensors> open_safetensors(os::FileSystem& files, const std::string& folder,
                                       std::vector<std::string>& skipped) {
  const std::string index = folder + "/model.safetensors.index.json";
  std::set<std::string> names = {"model.safetensors"};
  if (!os::exists(files, folder + "/model.safetensors")) {
    const std::string checkpoint = folder + "/pytorch_model.bin";
    if (!os::exists(files, index) && os::exists(files, checkpoint)) return open_checkpoint(files, checkpoint, skipped);
    if (!os::exists(files, index)) {
      return error(
          Code::not_found,
          "There is neither a model.safetensors nor a model.safetensors.index.json nor a pytorch_model.bin in \"",
          folder, "\".");
    }
    GRAFT_TRY_ASSIGN(const std::string text, os::read_text_file(files, index, kLargestIndex));
    GRAFT_TRY_ASSIGN(names, shards_of(text).with_context(index));
  }
  SourceTensors out;
  for (const std::string& name : names) {
    const std::string path = cat(folder, "/", name);
    GRAFT_TRY_ASSIGN(auto mapped, files.map(path));
    GRAFT_TRY(read_safetensors(mapped->bytes(), out, skipped).with_context(path));
    out.files.push_back(std::move(mapped));
  }
  return out;
}

}  // namespace graft::convert

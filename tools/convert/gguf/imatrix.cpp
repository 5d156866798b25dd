#include "tools/convert/gguf/imatrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "platform/base/checked.h"
#include "platform/base/text.h"
#include "tools/convert/gguf/gguf_write.h"

namespace graft::convert {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

Result<std::vector<float>> floats_of(const GgufFile& file, const GgufTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : tensor.dims) count *= dim;
  const bool f32 = tensor.type == 0;
  const auto bytes = checked_mul<std::uint64_t>(count, sizeof(float));
  if (!f32 || !bytes || !in_bounds(tensor.offset, *bytes, file.data().size())) {
    return corrupt("The tensor \"", shown(tensor.name), "\" is not of f32 numbers within the file.");
  }
  std::vector<float> out(count);
  std::memcpy(out.data(), file.data().data() + tensor.offset, *bytes);
  return out;
}

}  // namespace

Result<Importance> read_imatrix(const GgufFile& file) {
  const auto type = file.text("general.type");
  if (!type.ok() || *type != "imatrix") return corrupt("It is no importance matrix: its \"general.type\" is another.");
  std::map<std::string_view, std::vector<float>> counts;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kCounts)) continue;
    GRAFT_TRY_ASSIGN(counts[tensor.name.substr(0, tensor.name.size() - kCounts.size())], floats_of(file, tensor));
  }
  Importance out;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string_view name = tensor.name.substr(0, tensor.name.size() - kSums.size());
    GRAFT_TRY_ASSIGN(std::vector<float> sums, floats_of(file, tensor));
    const auto count = counts.find(name);
    if (count == counts.end()) return corrupt("There are sums of \"", shown(name), "\" without their counts.");
    if (count->second.size() != 1) return unsupported("\"", shown(name), "\" is of several experts.");
    const float summands = std::max(count->second[0], 1.0f);
    for (float& sum : sums) {
      if (!(sum >= 0) || !std::isfinite(sum)) return corrupt("A sum of squares of \"", shown(name), "\" is ", sum, ".");
      sum /= summands;
    }
    out.emplace(name, std::move(sums));
  }
  if (out.empty()) return corrupt("It has no sums of squares.");
  return out;
}

Result<Importance> read_imatrix(os::FileSystem& files, const std::string& path) {
  const std::string context = cat("While reading the importance matrix \"", path, "\"");
  auto mapped = files.map(path);
  if (!mapped.ok()) return std::move(mapped).status().with_context(context);
  const auto file = GgufFile::parse((*mapped)->bytes());
  if (!file.ok()) return Status(file.status()).with_context(context);
  return read_imatrix(*file).with_context(context);
}

Status write_imatrix(os::FileSystem& files, const std::string& path, std::vector<ImatrixEntry> entries,
                     const ImatrixFacts& facts) {
  GgufWriter writer;
  writer.add("general.type", "imatrix");
  writer.add("imatrix.datasets", std::span(facts.datasets));
  writer.add("imatrix.chunk_count", facts.chunks);
  writer.add("imatrix.chunk_size", facts.chunk_size);
  std::ranges::sort(entries, {}, &ImatrixEntry::name);  // as llama.cpp does
  std::vector<std::vector<float>> numbers;
  std::vector<ExportTensor> tensors;
  const auto put = [&](std::string name, std::vector<std::int64_t> dims) {
    ExportTensor& tensor = tensors.emplace_back();
    tensor.name = std::move(name);
    tensor.source = {std::move(dims), DType::f32, std::as_bytes(std::span(numbers.back()))};
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ImatrixEntry& entry = entries[i];
    if (i > 0 && entries[i - 1].name == entry.name) return invalid("There are two \"", shown(entry.name), "\".");
    std::vector<float>& sums = numbers.emplace_back();
    for (const double sum : entry.sums) {
      if (!(sum >= 0 && sum <= std::numeric_limits<float>::max())) {
        return invalid("A sum of squares of \"", shown(entry.name), "\" is ", sum, ", which no file holds.");
      }
      sums.push_back(static_cast<float>(sum));
    }
    put(cat(entry.name, kSums), {static_cast<std::int64_t>(sums.size())});
    numbers.push_back({static_cast<float>(entry.tokens)});
    put(cat(entry.name, kCounts), {1});
  }
  return writer.write(files, path, tensors);
}

}  // namespace graft::convert

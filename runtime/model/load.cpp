// From a file's bytes to a Model: header and checksum, FlatBuffers verifier, then everything that the tables mean.
#include <algorithm>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/model/enums.h"
#include "runtime/model/format.h"
#include "runtime/model/graph_reader.h"
#include "runtime/model/model.h"

namespace graft {

using namespace model_format;

/// Fills a Model from one file.
class ModelReader {
 public:
  ModelReader(std::span<const std::byte> bytes, std::string_view name, bool shapes_only)
      : bytes_(bytes), shapes_only_(shapes_only), budget_(0) {
    model_.source_ = name;
  }

  Result<Model> read() {
    if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % 8 != 0) {
      return invalid("The memory that holds it does not start at a multiple of 8 bytes.");
    }
    GRAFT_TRY_ASSIGN(root_, open_root(bytes_));
    const auto* data = reinterpret_cast<const std::uint8_t*>(root_.data());
    flatbuffers::Verifier::Options options;
    options.max_depth = 16;                                             // the schema nests seven tables deep
    options.max_tables = static_cast<std::uint32_t>(root_.size() / 4);  // none is smaller, unless tables are shared
    flatbuffers::Verifier verifier(data, root_.size(), options);
    if (!fb::VerifyModelBuffer(verifier))
      return corrupt("Its tables are malformed: the FlatBuffers verifier refuses them.");
    budget_ = Budget(root_.size());
    const fb::Model& file = *fb::GetModel(data);

    GRAFT_TRY_ASSIGN(model_.graph, read_graph(*file.graph(), budget_));
    GRAFT_TRY(read_symbols(file));
    GRAFT_TRY(read_metadata(file));
    GRAFT_TRY(read_tokenizer(file));
    GRAFT_TRY(read_signatures(file));
    GRAFT_TRY(read_segments(file));
    GRAFT_TRY(read_tensors(file));
    GRAFT_TRY(check_overlap(file));
    GRAFT_TRY(validate(model_, shapes_only_));
    return std::move(model_);
  }

  static void set_unchecked(Model& model, bool unchecked) { model.unchecked_ = unchecked; }
  static void keep(Model& model, std::unique_ptr<os::MappedFile> file) { model.file_ = std::move(file); }

 private:
  Status read_symbols(const fb::Model& file) {
    const auto* symbols = file.graph()->symbols();
    GRAFT_TRY(check_count(count_of(symbols), kMaxListed, "symbols"));
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < count_of(symbols); ++i) {
      GRAFT_TRY_ASSIGN(std::string name, read_name(symbols->Get(i)->name(), "The name of a symbol", budget_));
      const std::int64_t size = symbols->Get(i)->default_size();
      if (size < 0) return invalid("The symbol \"", name, "\" has the default size ", size, ".");
      if (size > 0) model_.symbol_defaults[name] = size;
      names.push_back(std::move(name));
    }
    if (names != model_.graph.symbols()) {
      return invalid("Its symbols are not those that occur in its shapes, each once and in the order of names.");
    }
    return ok_status();
  }

  Status read_metadata(const fb::Model& file) {
    GRAFT_TRY(check_count(count_of(file.metadata()), kMaxListed, "metadata entries"));
    std::string last;
    for (std::uint32_t i = 0; i < count_of(file.metadata()); ++i) {
      const fb::KeyValue& item = *file.metadata()->Get(i);
      GRAFT_TRY_ASSIGN(std::string key, read_name(item.key(), "A key of the metadata", budget_));
      if (key <= last) return invalid("The metadata's key \"", key, "\" does not stand in the order of keys.");
      GRAFT_TRY(budget_.take(item.value()->size(), 1));
      model_.metadata.emplace(key, item.value()->str());
      last = std::move(key);
    }
    return ok_status();
  }

  Status read_tokenizer(const fb::Model& file) {
    const fb::Tokenizer* tokenizer = file.tokenizer();
    if (tokenizer == nullptr) return ok_status();
    if (tokenizer->kind() == nullptr || count_of(tokenizer->data()) == 0) {
      return invalid("Its tokenizer lacks a kind or data.");
    }
    TokenizerData& out = model_.tokenizer.emplace();
    GRAFT_TRY_ASSIGN(out.format, read_name(tokenizer->kind(), "The kind of the tokenizer", budget_));
    GRAFT_TRY(budget_.take(tokenizer->data()->size(), 1));
    out.bytes.assign(reinterpret_cast<const char*>(tokenizer->data()->Data()), tokenizer->data()->size());
    return ok_status();
  }

  Status read_signatures(const fb::Model& file) {
    GRAFT_TRY(check_count(count_of(file.signatures()), kMaxListed, "signatures"));
    const std::size_t values = model_.graph.values().size();
    for (std::uint32_t i = 0; i < count_of(file.signatures()); ++i) {
      const fb::Signature& item = *file.signatures()->Get(i);
      Signature signature;
      GRAFT_TRY_ASSIGN(signature.name, read_name(item.name(), "The name of a signature", budget_));
      const std::string context = cat("In the signature \"", signature.name, "\"");
      auto inputs = read_named_values(item.inputs(), values, "input", budget_);
      if (!inputs.ok()) return std::move(inputs).status().with_context(context);
      auto outputs = read_named_values(item.outputs(), values, "output", budget_);
      if (!outputs.ok()) return std::move(outputs).status().with_context(context);
      signature.inputs = std::move(*inputs);
      signature.outputs = std::move(*outputs);
      model_.signatures.push_back(std::move(signature));
    }
    return ok_status();
  }

  Status read_segments(const fb::Model& file) {
    std::uint64_t end = root_.size();
    for (std::uint32_t i = 0; i < count_of(file.segments()); ++i) {
      const std::uint64_t offset = file.segments()->Get(i)->offset();
      const std::uint64_t bytes = file.segments()->Get(i)->bytes();
      if (offset % kSegmentAlignment != 0) {
        return invalid("Segment ", i, " starts at byte ", offset, ", which is no multiple of ", kSegmentAlignment, ".");
      }
      if (offset < end) {
        return invalid("Segment ", i, " starts at byte ", offset, "; what stands before it ends at byte ", end, ".");
      }
      if (!in_bounds(offset, bytes, bytes_.size())) {
        return invalid("Segment ", i, " of ", bytes, " bytes from byte ", offset, " on lies outside the file of ",
                       bytes_.size(), " bytes.");
      }
      end = offset + bytes;
    }
    return ok_status();
  }

  Status read_tensors(const fb::Model& file) {
    const auto& values = model_.graph.values();
    std::int64_t last = -1;
    for (std::uint32_t i = 0; i < count_of(file.tensors()); ++i) {
      const fb::Tensor& tensor = *file.tensors()->Get(i);
      if (tensor.value() >= values.size()) {
        return invalid("Tensor ", i, " is of value ", tensor.value(), "; there are ", values.size(), ".");
      }
      if (std::int64_t{tensor.value()} <= last) return invalid("Tensor ", i, " does not stand in the order of values.");
      last = tensor.value();
      GRAFT_TRY(read_tensor(file, tensor).with_context(cat("In the weight \"", values[tensor.value()].name, "\"")));
    }
    return ok_status();
  }

  Status read_tensor(const fb::Model& file, const fb::Tensor& tensor) {
    const ValueId id{tensor.value()};
    if (from_file(tensor.dtype()) != model_.graph.value(id).dtype) {
      return invalid("It is stored with dtype number ", static_cast<int>(tensor.dtype()), "; the value is ",
                     dtype_name(model_.graph.value(id).dtype), ".");
    }
    if (tensor.segment() >= count_of(file.segments())) {
      return invalid("It lies in segment ", tensor.segment(), "; there are ", count_of(file.segments()), ".");
    }
    const fb::Segment& segment = *file.segments()->Get(tensor.segment());
    if (tensor.offset() % kTensorAlignment != 0) {
      return invalid("It starts at byte ", tensor.offset(), " of its segment, which is no multiple of ",
                     kTensorAlignment, ".");
    }
    if (!in_bounds(tensor.offset(), tensor.bytes(), segment.bytes())) {
      return invalid("Its ", tensor.bytes(), " bytes from byte ", tensor.offset(), " on lie outside its segment of ",
                     segment.bytes(), " bytes.");
    }
    const auto at = static_cast<std::size_t>(segment.offset() + tensor.offset());
    GRAFT_TRY(model_.view_weight(id, bytes_.subspan(at, static_cast<std::size_t>(tensor.bytes()))));
    Model::Stated stated{{tensor.checksum_low(), tensor.checksum_high()}, {}, at};
    if (const auto* blocks = tensor.blocks()) {
      const std::uint64_t needed = tensor.bytes() / kHashedBlock + (tensor.bytes() % kHashedBlock != 0 ? 1 : 0);
      if (blocks->size() != needed) {
        return invalid("It has ", blocks->size(), " checksums of blocks; its ", tensor.bytes(), " bytes have ", needed,
                       " blocks.");
      }
      if (reinterpret_cast<std::uintptr_t>(blocks->data()) % 8 != 0) {
        return corrupt("The checksums of its blocks do not stand at a multiple of 8 bytes.");
      }
      stated.blocks = {blocks->data(), blocks->size()};
    }
    model_.weights_[id].stated = stated;
    return ok_status();
  }

  Status check_overlap(const fb::Model& file) const {
    std::vector<ValueId> order;
    for (std::uint32_t i = 0; i < count_of(file.tensors()); ++i) {
      if (file.tensors()->Get(i)->bytes() != 0) order.push_back({file.tensors()->Get(i)->value()});
    }
    const auto start = [&](ValueId id) { return model_.weights_.at(id).bytes.data(); };
    graft::stable_sort(order, [&](ValueId a, ValueId b) { return start(a) < start(b); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (start(order[i]) < start(order[i - 1]) + model_.weights_.at(order[i - 1]).bytes.size()) {
        return invalid("The weights \"", model_.graph.value(order[i - 1]).name, "\" and \"",
                       model_.graph.value(order[i]).name, "\" overlap.");
      }
    }
    return ok_status();
  }

  std::span<const std::byte> bytes_;
  bool shapes_only_;
  std::span<const std::byte> root_;
  Budget budget_;
  Model model_;
};

namespace {

/// What is wrong with a file's contents is the file's fault, not an argument's.
Status blame_file(const Status& status, std::string_view name) {
  const Code code = status.code() == Code::invalid_argument ? Code::corrupt : status.code();
  return Status(code, status.message()).with_context(cat("The model file \"", name, "\" cannot be loaded"));
}

}  // namespace

Result<Model> load_model(std::span<const std::byte> bytes, std::string_view name, const LoadOptions& options) {
  auto model = ModelReader(bytes, name, options.shapes_only).read();
  if (!model.ok()) return blame_file(std::move(model).status(), name);
  if (options.check == WeightCheck::at_once) GRAFT_TRY(model->verify_weights());
  ModelReader::set_unchecked(*model, options.check == WeightCheck::never);
  return model;
}

Result<Model> load_model(os::FileSystem& files, const std::string& path, const LoadOptions& options) {
  GRAFT_TRY_ASSIGN(auto file, files.map(path));
  return load_model(std::move(file), path, options);
}

Result<Model> load_model(std::unique_ptr<os::MappedFile> bytes, std::string_view name, const LoadOptions& options) {
  GRAFT_TRY_ASSIGN(Model model, load_model(bytes->bytes(), name, options));
  ModelReader::keep(model, std::move(bytes));
  return model;
}

}  // namespace graft

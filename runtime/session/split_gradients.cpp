#include "runtime/session/split_gradients.h"

#include <algorithm>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/train/step/training_graph.h"

namespace graft {
namespace {

/// Whether the first axis, as the source orders them, is the batch; an error where another axis depends on it.
Result<bool> has_batch(const Graph& graph, const std::string& name, const std::string& batch) {
  GRAFT_TRY_ASSIGN(const ValueId id, graph.resolve(name));
  const Shape shape = source_shape(graph.value(id));
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const Dim& dim = shape[axis];
    const auto names = dim.names();
    if (std::find(names.begin(), names.end(), batch) == names.end()) continue;
    if (axis == 0 && dim == Dim::symbol(batch)) return true;
    return unsupported("\"", name, "\" has the shape ", shape.text(), ", which micro-batches cannot split: only a ",
                       "first axis of \"", batch, "\" can be.");
  }
  return false;
}

class Splitter {
 public:
  Splitter(gpu::Device& device, const Model& model, const SplitGradientRequest& request, const SampleArrays& arrays,
           const HostAllocator& allocator)
      : device_(device), model_(model), request_(request), arrays_(arrays), allocator_(allocator) {}

  Result<SplitGradients> run() {
    GRAFT_TRY(find_batch());
    const std::int64_t first = request_.per_sample ? 1 : request_.micro_batch == 0 ? samples_ : request_.micro_batch;
    GRAFT_TRY_ASSIGN(out_.micro_batch, open_largest(std::min(first, samples_)));
    if (out_.micro_batch < samples_) GRAFT_TRY(check_splittable());
    for (std::int64_t at = 0; at < samples_;) {
      const std::int64_t samples = std::min(out_.micro_batch, samples_ - at);
      if (session_ == nullptr || samples != session_samples_) GRAFT_TRY(open(samples));
      GRAFT_TRY(run_piece(at, samples));
      at += samples;
    }
    GRAFT_TRY(finish_sums());
    return std::move(out_);
  }

 private:
  struct Sum {
    std::vector<double> values;
    DType dtype{};
    Shape shape;
  };

  Status find_batch() {
    GRAFT_TRY_ASSIGN(batch_, train::batch_symbol(model_.graph));
    const auto bound = request_.bindings.find(batch_);
    if (batch_.empty() || bound == request_.bindings.end()) {
      return invalid("The model's inputs have no named batch axis to split.");
    }
    samples_ = bound->second;
    if (samples_ < 1) return invalid("There are ", samples_, " samples.");
    if (const auto stacked = has_batch(model_.graph, request_.gradients.of, batch_); stacked.ok()) {
      splits_ = *stacked && samples_ > 1;
    }
    for (const std::string& name : request_.gradients.wrt) {
      GRAFT_TRY_ASSIGN(stacked_[name], has_batch(model_.graph, name, batch_));
    }
    return ok_status();
  }

  Status check_splittable() const {
    GRAFT_TRY_ASSIGN(const bool splits, has_batch(model_.graph, request_.gradients.of, batch_));
    if (!splits) {
      return invalid("\"", request_.gradients.of,
                     "\" is of the whole batch, so its gradient cannot be taken in pieces ", "of ", out_.micro_batch,
                     " of ", samples_, " samples; take that of a value with a batch axis.");
    }
    if (!request_.gradients.train_mode) return ok_status();
    for (const Node& node : model_.graph.nodes()) {
      if (node.op != Op::batch_norm) continue;
      return invalid("The node \"", node.name, "\" normalizes by the statistics of the whole batch in train mode, so ",
                     "gradients cannot be taken in pieces of ", out_.micro_batch, " of ", samples_, " samples.");
    }
    return ok_status();
  }

  Status open(std::int64_t samples) {
    session_.reset();  // one at a time on the device
    SessionOptions options;
    options.bindings = request_.bindings;
    options.bindings[batch_] = samples;
    options.gradients = request_.gradients;
    options.keep_outputs = false;
    options.precision = request_.precision;
    options.allow_non_finite = request_.allow_non_finite;
    options.plan.budget = request_.budget;
    options.plan.stream = stream_;
    options.program = request_.program;
    GRAFT_TRY_ASSIGN(session_, Session::create(device_, model_, options));
    session_samples_ = samples;
    out_.device_bytes = std::max(out_.device_bytes, session_->plan().memory.total());
    return ok_status();
  }

  /// Halves until it fits; where nothing does, the same with weights that are streamed.
  Result<std::int64_t> open_largest(std::int64_t most) {
    for (std::int64_t samples = most;; samples = ceil_div(samples, std::int64_t{2})) {
      const Status opened = open(samples);
      if (opened.ok()) return samples;
      if (opened.code() != Code::out_of_memory) return opened;
      if (samples > 1) continue;
      if (stream_) return opened;
      stream_ = true;
      samples = most + most;  // whose half it begins with
    }
  }

  Status run_piece(std::int64_t first, std::int64_t samples) {
    for (const PlanPort& port : session_->plan().inputs) {
      const auto found = arrays_.find(port.name);
      if (found == arrays_.end() && is_implied(port) && !splits_) continue;
      if (found == arrays_.end()) return invalid("The input \"", port.name, "\" is missing.");
      GRAFT_TRY_ASSIGN(const auto piece, piece_of(port, found->second, first, samples));
      GRAFT_TRY(session_->set_input(port.name, piece));
    }
    StepState state;
    state.micro_step = static_cast<std::uint32_t>(pieces_++);
    GRAFT_TRY(session_->run(state));
    for (const std::string& name : request_.gradients.wrt) GRAFT_TRY(keep(name, first));
    return ok_status();
  }

  /// The samples' part of an input; all of one without a batch axis.
  Result<std::span<const std::byte>> piece_of(const PlanPort& port, const data::Array& array, std::int64_t first,
                                              std::int64_t samples) const {
    std::vector<Dim> whole = port.shape.dims();
    const bool split = !whole.empty() && whole[0] == Dim(samples) && array.shape.rank() == whole.size() &&
                       array.shape[0] == Dim(samples_);
    if (split) whole[0] = Dim(samples_);
    if (array.dtype != port.dtype || array.shape != Shape(whole)) {
      return invalid("The input \"", port.name, "\" takes ", dtype_name(port.dtype), Shape(whole).text(),
                     "; what was given is ", dtype_name(array.dtype), array.shape.text(), ".");
    }
    if (!split) return array.buffer.bytes();
    const std::uint64_t row = array.buffer.size() / static_cast<std::uint64_t>(samples_);
    return array.buffer.bytes().subspan(row * static_cast<std::uint64_t>(first), port.bytes);
  }

  Status keep(const std::string& name, std::int64_t first) {
    const auto& outputs = session_->plan().outputs;
    const auto port =
        std::find_if(outputs.begin(), outputs.end(), [&](const PlanPort& p) { return p.name == gradient_name(name); });
    if (port == outputs.end()) return internal_error("There is no gradient of \"", name, "\".");
    const std::span<const std::byte> bytes = session_->output(port->name);
    if (!stacked_.find(name)->second && !request_.per_sample) return add_up(name, *port, bytes);
    const bool new_axis = !stacked_.find(name)->second;
    data::Array& out = out_.gradients[name];
    const std::uint64_t row = bytes.size() / static_cast<std::uint64_t>(session_samples_);
    if (first == 0) {
      std::vector<Dim> dims = port->shape.dims();
      if (new_axis) dims.insert(dims.begin(), Dim(samples_));
      dims[0] = Dim(samples_);
      out.dtype = port->dtype;
      out.shape = Shape(std::move(dims));
      GRAFT_TRY_ASSIGN(out.buffer,
                       HostBuffer::create(row * static_cast<std::uint64_t>(samples_), "gradients", allocator_));
    }
    std::memcpy(out.buffer.data() + row * static_cast<std::uint64_t>(first), bytes.data(), bytes.size());
    return ok_status();
  }

  Status add_up(const std::string& name, const PlanPort& port, std::span<const std::byte> bytes) {
    Sum& sum = sums_[name];
    if (sum.values.empty()) {
      sum = {std::vector<double>(bytes.size() / sizeof(float)), port.dtype, port.shape};
    }
    for (std::size_t i = 0; i < sum.values.size(); ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      sum.values[i] += value;
    }
    return ok_status();
  }

  Status finish_sums() {
    for (const auto& [name, sum] : sums_) {
      data::Array& out = out_.gradients[name];
      out.dtype = sum.dtype;
      out.shape = sum.shape;
      GRAFT_TRY_ASSIGN(out.buffer, HostBuffer::create(sum.values.size() * sizeof(float), "gradients", allocator_));
      for (std::size_t i = 0; i < sum.values.size(); ++i) {
        const auto value = static_cast<float>(sum.values[i]);
        std::memcpy(out.buffer.data() + i * sizeof value, &value, sizeof value);
      }
    }
    return ok_status();
  }

  gpu::Device& device_;
  const Model& model_;
  const SplitGradientRequest& request_;
  const SampleArrays& arrays_;
  const HostAllocator& allocator_;
  std::string batch_;
  std::int64_t samples_ = 0;
  std::map<std::string, bool, std::less<>> stacked_;  ///< by wrt: its first axis is the batch
  std::unique_ptr<Session> session_;
  std::int64_t session_samples_ = 0;
  std::int64_t pieces_ = 0;
  bool stream_ = false;
  bool splits_ = false;  ///< `of` has more than one sample, so its cotangent must be given
  std::map<std::string, Sum, std::less<>> sums_;
  SplitGradients out_;
};

}  // namespace

Result<SplitGradients> split_gradients(gpu::Device& device, const Model& model, const SplitGradientRequest& request,
                                       const SampleArrays& arrays, const HostAllocator& allocator) {
  return Splitter(device, model, request, arrays, allocator).run();
}

}  // namespace graft

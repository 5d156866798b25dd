#include "platform/null/null_device.h"

#include <algorithm>
#include <cstdlib>

#include "platform/gpu/checks.h"

namespace graft::null {

/// Counts itself as alive.
struct NullObject {
  explicit NullObject(NullDevice& owner) : device(owner) { ++device.live_objects_; }
  ~NullObject() { --device.live_objects_; }
  NullObject(const NullObject&) = delete;
  NullObject& operator=(const NullObject&) = delete;
  NullDevice& device;
};

class NullBuffer final : public gpu::Buffer {
 public:
  NullBuffer(NullDevice& device, std::byte* data, std::uint64_t size, bool host_visible, std::string_view name)
      : object_(device), data_(data), size_(size), host_visible_(host_visible), name_(name) {
    gpu::MemoryStats& stats = device.stats_;
    stats.bytes += size_;
    stats.reserved_bytes += size_;
    stats.peak_bytes = std::max(stats.peak_bytes, stats.bytes);
    ++stats.allocations;
  }
  ~NullBuffer() override {
    object_.device.stats_.bytes -= size_;
    object_.device.stats_.reserved_bytes -= size_;
    std::free(data_);
  }
  std::uint64_t size() const override { return size_; }
  std::string_view name() const override { return name_; }
  std::span<std::byte> mapped() override {
    if (!host_visible_) return {};
    return {data_, static_cast<std::size_t>(size_)};
  }

 private:
  NullObject object_;
  std::byte* data_;
  std::uint64_t size_;
  bool host_visible_;
  std::string name_;
};

struct NullKernel final : gpu::Kernel {
  NullKernel(NullDevice& device, const gpu::KernelDesc& desc)
      : object(device),
        name(desc.name),
        bindings(desc.bindings),
        push_bytes(desc.push_bytes),
        in_parts(desc.in_parts) {}
  NullObject object;
  std::string name;
  std::uint32_t bindings;
  std::uint32_t push_bytes;
  bool in_parts;
};

struct NullCommandList final : gpu::CommandList {
  NullCommandList(NullDevice& device, std::string_view list_name, std::uint32_t timestamp_count)
      : object(device), name(list_name), timestamps(timestamp_count) {}
  NullObject object;
  std::string name;
  std::uint32_t timestamps;
  std::vector<Command> commands;
  bool was_submitted = false;
};

class NullRecorder final : public gpu::Recorder {
 public:
  NullRecorder(NullDevice& device, std::string_view name, std::uint32_t timestamps)
      : device_(device), list_(std::make_unique<NullCommandList>(device, name, timestamps)) {}

  void dispatch(gpu::Kernel& kernel, std::span<const gpu::BufferRange> bindings, std::span<const std::byte> push,
                std::array<std::uint32_t, 3> groups, std::array<std::uint32_t, 3> first) override {
    const auto& it = static_cast<const NullKernel&>(kernel);
    add("dispatch",
        {CommandKind::dispatch,
         it.name,
         {bindings.begin(), bindings.end()},
         {push.begin(), push.end()},
         groups,
         0,
         first},
        [&] {
          return gpu::check_dispatch({it.name, it.bindings, it.push_bytes, it.in_parts}, bindings, push.size(), groups,
                                     first, device_.caps());
        });
  }
  void copy(const gpu::BufferRange& from, const gpu::BufferRange& to) override {
    add("copy", {CommandKind::copy, {}, {from, to}}, [&] { return gpu::check_copy(from, to); });
  }
  void fill(const gpu::BufferRange& to, std::uint32_t word) override {
    add("fill", {CommandKind::fill, {}, {to}, {}, {}, word}, [&] { return gpu::check_fill(to); });
  }
  void barrier() override { add("barrier", {CommandKind::barrier}, ok_status); }
  void host_barrier() override { add("host_barrier", {CommandKind::host_barrier}, ok_status); }
  void timestamp(std::uint32_t index) override {
    add("timestamp", {CommandKind::timestamp, {}, {}, {}, {}, index}, [&] {
      return index < list_->timestamps
                 ? ok_status()
                 : invalid("Timestamp ", index, " is out of range: the list was given ", list_->timestamps, ".");
    });
  }
  void begin_label(std::string_view name) override {
    ++open_labels_;
    add("begin_label", {CommandKind::begin_label, std::string(name)}, ok_status);
  }
  void end_label() override {
    add("end_label", {CommandKind::end_label},
        [&] { return open_labels_-- > 0 ? ok_status() : invalid("end_label() was called without begin_label()."); });
  }
  Result<std::unique_ptr<gpu::CommandList>> finish() override {
    if (list_ == nullptr) return invalid("finish() was called twice on one recorder.");
    auto list = std::move(list_);
    if (error_.ok()) error_ = device_.count_call("finish");
    if (error_.ok() && open_labels_ > 0) error_ = invalid(open_labels_, " labels were not ended.");
    if (!error_.ok()) return std::move(error_).with_context(cat("While recording \"", list->name, "\""));
    return std::unique_ptr<gpu::CommandList>(std::move(list));
  }

 private:
  template <typename Check>
  void add(const char* call, Command command, const Check& check) {
    if (!error_.ok()) return;
    error_ = device_.count_call(call);
    if (error_.ok()) error_ = check();
    if (error_.ok()) list_->commands.push_back(std::move(command));
  }

  NullDevice& device_;
  std::unique_ptr<NullCommandList> list_;
  Status error_;
  int open_labels_ = 0;
};

NullDevice::NullDevice(Options options) : options_(std::move(options)), target_{.caps = options_.caps} {}

NullDevice::~NullDevice() = default;

Status NullDevice::count_call(const char* call) {
  if (++calls_ != fail_at_) return ok_status();
  return error(fail_code_, "The null device was told to fail its call ", calls_, ", ", call, "().");
}

void NullDevice::fail_call(std::uint64_t n, Code code) {
  fail_at_ = n == 0 ? 0 : calls_ + n;
  fail_code_ = code;
}

Result<std::unique_ptr<gpu::Buffer>> NullDevice::create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                               std::string_view name) {
  GRAFT_TRY(count_call("create_buffer"));
  GRAFT_TRY(gpu::check_buffer_size(bytes, name, options_.caps));
  if (options_.memory_limit != 0 && bytes > options_.memory_limit - std::min(options_.memory_limit, stats_.bytes)) {
    return error(Code::out_of_memory, "Buffer \"", name, "\" needs ", bytes_text(bytes), ", but ",
                 bytes_text(stats_.bytes), " of ", bytes_text(options_.memory_limit), " are in use.");
  }
  // calloc: untouched pages of a huge buffer cost nothing.
  auto* data = static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(gpu::usable_size(bytes) / 4), 4));
  if (data == nullptr) {
    return error(Code::out_of_memory, "Host memory for buffer \"", name, "\" (", bytes_text(bytes),
                 ") could not be allocated.");
  }
  const bool visible = kind != gpu::MemoryKind::device || options_.caps.unified_memory;
  return std::unique_ptr<gpu::Buffer>(std::make_unique<NullBuffer>(*this, data, bytes, visible, name));
}

Result<std::vector<std::unique_ptr<gpu::Kernel>>> NullDevice::create_kernels(std::span<const gpu::KernelDesc> kernels) {
  GRAFT_TRY(count_call("create_kernels"));
  std::vector<std::unique_ptr<gpu::Kernel>> out;
  for (const gpu::KernelDesc& desc : kernels) {
    GRAFT_TRY(gpu::check_kernel(desc, options_.caps));
    out.push_back(std::make_unique<NullKernel>(*this, desc));
  }
  return out;
}

Result<std::unique_ptr<gpu::Recorder>> NullDevice::record(std::string_view name, std::uint32_t timestamps) {
  GRAFT_TRY(count_call("record"));
  return std::unique_ptr<gpu::Recorder>(std::make_unique<NullRecorder>(*this, name, timestamps));
}

Result<gpu::Ticket> NullDevice::submit(std::span<gpu::CommandList* const> lists) {
  GRAFT_TRY(count_call("submit"));
  for (gpu::CommandList* it : lists) {
    auto& list = static_cast<NullCommandList&>(*it);
    list.was_submitted = true;
    if (!options_.keep_submitted) continue;
    submitted_commands_.insert(submitted_commands_.end(), list.commands.begin(), list.commands.end());
  }
  return ++submitted_;
}

Status NullDevice::wait(gpu::Ticket ticket, std::chrono::nanoseconds) {
  GRAFT_TRY(count_call("wait"));
  if (ticket == 0 || ticket > submitted_) {
    return invalid("Ticket ", ticket, " names no submission; the newest is ", submitted_, ".");
  }
  return ok_status();
}

Status NullDevice::read_timestamps(gpu::CommandList& list, std::span<std::uint64_t> ticks) {
  GRAFT_TRY(count_call("read_timestamps"));
  const auto& it = static_cast<const NullCommandList&>(list);
  if (ticks.size() > it.timestamps) {
    return invalid("List \"", it.name, "\" has ", it.timestamps, " timestamps, but ", ticks.size(), " were asked for.");
  }
  if (!it.was_submitted) return invalid("List \"", it.name, "\" was never submitted, so it has no timestamps.");
  for (std::size_t i = 0; i < ticks.size(); ++i) ticks[i] = i;
  return ok_status();
}

Status NullDevice::open_pipeline_cache(const std::string&) { return count_call("open_pipeline_cache"); }
Status NullDevice::save_pipeline_cache() { return count_call("save_pipeline_cache"); }

const std::vector<Command>& NullDevice::commands(const gpu::CommandList& list) {
  return static_cast<const NullCommandList&>(list).commands;
}

}  // namespace graft::null

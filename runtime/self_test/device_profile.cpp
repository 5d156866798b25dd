#include "runtime/self_test/device_profile.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "platform/base/hash.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

constexpr std::uint64_t kMaxFileBytes = 4u << 20;
constexpr std::string_view kTitle = "graft device profile 2";
constexpr std::string_view kChecksum = "checksum ";

// A hash of everything that a verdict depends on: other kernels, other verdicts.
const std::string& kernels_hash() {
  static const std::string hash = [] {
    std::vector<std::span<const std::byte>> parts = {shaders::packed_kernels()};
    for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(shaders::KernelId::count_); ++i) {
      const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(i));
      parts.push_back(std::as_bytes(std::span(info.name)));
    }
    return hash_text(hash128(parts));
  }();
  return hash;
}

// One line each: names come from drivers.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

std::string identity_of(const gpu::Caps& caps) {
  return cat("device ", one_line(caps.device_name), "\nids ", caps.vendor_id, " ", caps.device_id, "\ndriver ",
             caps.driver_version, " ", one_line(caps.driver_name), " ", one_line(caps.driver_info), "\nkernels ",
             kernels_hash(), "\n");
}

std::string checksum_of(std::string_view text) { return hash_text(hash128(std::as_bytes(std::span(text)))); }

}  // namespace

DeviceProfile::DeviceProfile(os::FileSystem& files, const gpu::Caps& caps, const LogSink& log)
    : files_(files), log_(log), identity_(identity_of(caps)) {
  // Without the kernels and the driver's version, so that a newer file replaces the older one.
  stem_ = cat("device-", checksum_of(cat(caps.device_name, " ", caps.vendor_id, " ", caps.device_id)).substr(0, 16));
}

std::unique_ptr<DeviceProfile> DeviceProfile::open(os::FileSystem& files, const std::string& folder,
                                                   const gpu::Caps& caps, const LogSink& log) {
  std::unique_ptr<DeviceProfile> profile(new DeviceProfile(files, caps, log));
  if (!folder.empty()) profile->attach(folder);
  return profile;
}

void DeviceProfile::attach(const std::string& folder) {
  if (const Status made = os::make_directories(files_, folder); !made.ok()) {
    log_(LogLevel::warning, "Nothing is remembered about this device: ", made.message());
    return;
  }
  path_ = cat(folder, "/", stem_, ".txt");
  auto lock = files_.lock(path_ + ".lock");
  if (lock.ok()) {
    lock_ = std::move(lock).value();
  } else {
    log_(LogLevel::info, "The device profile \"", path_, "\" is read but not written: ", lock.status().message());
  }
  load();
}

void DeviceProfile::load() {
  const auto text = os::read_text_file(files_, path_, kMaxFileBytes);
  if (!text.ok()) {
    if (text.status().code() != Code::not_found) {
      log_(LogLevel::warning, "The device profile is ignored: ", text.status().message());
    }
    return;
  }
  if (!parse(*text)) {
    forget_verdicts();
    tuned_.clear();
    return;
  }
  if (!lock_) {  // its owner is at it now
    probing_.clear();
    return;
  }
  const bool ended = !probing_.empty();
  for (const ProofKey& key : std::set<ProofKey>(probing_)) {  // fail() takes them out
    if (doubted_.insert(key).second) {
      log_(LogLevel::info, "The process ended while kernel ", key, " was tested; it is tested again.");
      continue;
    }
    log_(LogLevel::warning, "Kernel ", key, " is not used: the process died twice while it was tested.");
    fail(key, "the process died twice while it was tested");
  }
  if (ended) save();
}

bool DeviceProfile::parse(const std::string& text) {
  const auto ignore = [&](std::string_view why) {
    log_(LogLevel::warning, "The device profile \"", path_, "\" is ignored: ", why);
    return false;
  };
  const std::size_t end = text.rfind(kChecksum);
  if (end == std::string::npos || !text.starts_with(kTitle)) return ignore("it is no device profile.");
  if (text.substr(end) != cat(kChecksum, checksum_of(std::string_view(text).substr(0, end)), "\n")) {
    return ignore("it is damaged.");
  }
  const std::string head = cat(kTitle, "\n", identity_);
  if (!text.starts_with(head)) return ignore("it belongs to another driver or another build of graft.");
  std::istringstream lines(text.substr(head.size(), end - head.size()));
  for (std::string line; std::getline(lines, line);) {
    if (!parse_line(line)) return ignore(cat("it holds the line \"", line, "\"."));
  }
  return true;
}

bool DeviceProfile::parse_line(const std::string& line) {
  const auto tab = line.find('\t');
  if (tab == std::string::npos) return false;
  const std::string word = line.substr(0, tab);
  const std::string rest = line.substr(tab + 1);
  const auto second = rest.find('\t');
  const std::string key = rest.substr(0, second);
  const std::string value = second == std::string::npos ? std::string() : rest.substr(second + 1);
  if (word == "passed") {
    passed_.insert(key);
  } else if (word == "failed") {
    failed_[key] = value;
    doubted_.insert(key);
  } else if (word == "untested") {
    untested_.insert(key);
  } else if (word == "probing") {
    probing_.insert(key);
  } else if (word == "doubted") {
    doubted_.insert(key);
  } else if (word == "tuned") {
    tuned_[key] = value;
  } else {
    return false;
  }
  return true;
}

std::string DeviceProfile::text() const {
  std::string text = cat(kTitle, "\n", identity_);
  for (const ProofKey& key : passed_) text += cat("passed\t", key, "\n");
  for (const auto& [key, why] : failed_) {
    text += doubted_.contains(key) ? cat("failed\t", key, "\t", one_line(why), "\n") : cat("doubted\t", key, "\n");
  }
  for (const ProofKey& key : untested_) text += cat("untested\t", key, "\n");
  for (const ProofKey& key : probing_) text += cat("probing\t", key, "\n");
  for (const ProofKey& key : doubted_) {
    if (!failed_.contains(key)) text += cat("doubted\t", key, "\n");
  }
  for (const auto& [key, variant] : tuned_) text += cat("tuned\t", key, "\t", variant, "\n");
  return text + cat(kChecksum, checksum_of(text), "\n");
}

void DeviceProfile::write() {
  if (!lock_) return;
  const Status written = os::atomic_write_file(files_, path_, text());
  if (!written.ok()) log_(LogLevel::warning, "The device profile is not kept: ", written.message());
}

void DeviceProfile::begin_probe(const std::set<ProofKey>& suspects) {
  probing_ = suspects;
  write();
}

void DeviceProfile::pass(const ProofKey& key) {
  probing_.erase(key);
  if (failed_.contains(key)) return;
  doubted_.erase(key);
  passed_.insert(key);
}

void DeviceProfile::fail(const ProofKey& key, const std::string& why) {
  probing_.erase(key);
  passed_.erase(key);
  failed_[key] = why;
}

void DeviceProfile::forget_verdicts() {
  passed_.clear();
  failed_.clear();
  untested_.clear();
  probing_.clear();
  doubted_.clear();
}

void DeviceProfile::adopt_verdicts(const DeviceProfile& other) {
  passed_ = other.passed_;
  failed_ = other.failed_;
  untested_ = other.untested_;
  doubted_ = other.doubted_;
}

void DeviceProfile::save() {
  probing_.clear();
  write();
}

std::vector<std::string> DeviceProfile::unknown() const {
  std::vector<std::string> names;
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(shaders::KernelId::count_); ++i) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(i));
    if (!info.built()) continue;
    const std::string name(info.name);
    const auto begins = [&](const std::string& key) { return key == name || key.starts_with(name + "/"); };
    const bool failed = std::ranges::any_of(failed_, [&](const auto& entry) { return begins(entry.first); });
    if (!failed && std::ranges::none_of(passed_, begins)) names.push_back(name);
  }
  return names;
}

gpu::Advice DeviceProfile::advice() const {
  gpu::Advice advice;
  for (const auto& [key, why] : failed_) advice.avoided.insert(key);
  advice.tuned = tuned_;
  return advice;
}

std::string DeviceProfile::pipeline_cache_path() const {
  return path_.empty() ? std::string() : cat(path_.substr(0, path_.rfind('/') + 1), stem_, ".pipelines");
}

}  // namespace graft

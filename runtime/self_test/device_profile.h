// What was found out about one device and driver, kept in a file of the cache folder: which kernels passed their
// self-test, which failed, which was being tested when the process died, and which variants were measured to be
// fastest.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "platform/base/log.h"
#include "platform/gpu/gpu.h"
#include "platform/os/file.h"

namespace graft {

/// What a verdict is about: a kernel's name, or one tile of it as in "matmul__f32/shared 64x8x4x4".
using ProofKey = std::string;

/// Threads: one. The file belongs to whoever opened it first: another process (or object) neither believes that a probe
/// of the first crashed nor writes.
class DeviceProfile {
 public:
  /// Reads the file of this device in `folder`, which is made where missing. Identity is the device's name and ids, the
  /// driver's version and information, and a hash of graft's kernels. A file that is damaged or of another identity is
  /// ignored with a log line, and so is a folder that cannot be used: nothing is then kept. An empty folder: no file.
  static std::unique_ptr<DeviceProfile> open(os::FileSystem& files, const std::string& folder, const gpu::Caps& caps,
                                             const LogSink& log = {});

  /// What plans are to follow: failed kernels are avoided, measured variants taken.
  gpu::Advice advice() const;
  bool known(const ProofKey& key) const {
    return passed_.contains(key) || failed_.contains(key) || untested_.contains(key);
  }
  const std::set<ProofKey>& passed() const { return passed_; }
  const std::map<ProofKey, std::string>& failed() const { return failed_; }  ///< with what was wrong
  std::vector<std::string> unknown() const;  ///< kernels of this build of which nothing is known
  const std::map<std::string, std::string, std::less<>>& tuned() const { return tuned_; }

  /// Writes down, before a test runs, which kernels it is about to use for the first time. Where the process ends
  /// meanwhile they are tested again: a user may have stopped it, or the system for want of memory. Where that happens
  /// to one of them a second time, it has failed.
  void begin_probe(const std::set<ProofKey>& suspects);
  /// Ends the probe. Not written before the next begin_probe() or save().
  void pass(const ProofKey& key);
  /// For as long as this object lives. A driver that is short of memory may give wrong results instead of an error: so
  /// the file holds a kernel as failed only after its test failed in two processes, or ended them.
  void fail(const ProofKey& key, const std::string& why);
  /// No probe reaches it: it is used all the same, and not looked for again.
  void leave_untested(const ProofKey& key) { untested_.insert(key); }
  void forget_verdicts();
  void adopt_verdicts(const DeviceProfile& other);
  void set_tuned(std::map<std::string, std::string, std::less<>> tuned) { tuned_ = std::move(tuned); }
  void save();

  const std::string& path() const { return path_; }  ///< empty: no file
  /// Where the driver's compiled pipelines for this device may be kept; empty: nowhere.
  std::string pipeline_cache_path() const;

 private:
  DeviceProfile(os::FileSystem& files, const gpu::Caps& caps, const LogSink& log);

  void attach(const std::string& folder);
  void load();
  bool parse(const std::string& text);
  bool parse_line(const std::string& line);
  std::string text() const;
  void write();

  os::FileSystem& files_;
  LogSink log_;
  std::string identity_;
  std::string stem_;  ///< of the files of this device
  std::string path_;
  std::unique_ptr<os::FileLock> lock_;
  std::set<ProofKey> passed_;
  std::map<ProofKey, std::string> failed_;
  std::set<ProofKey> untested_;
  std::set<ProofKey> probing_;
  std::set<ProofKey> doubted_;  ///< an earlier process ended while they were tested, or found them wrong
  std::map<std::string, std::string, std::less<>> tuned_;
};

}  // namespace graft

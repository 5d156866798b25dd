// From graft to Java: ai.graft.Callbacks, from any thread.
#pragma once

#include <jni.h>

#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft::jni {

/// The callbacks in graft's options, over one ai.graft.Callbacks. Java keeps what they throw; nothing is pending after.
class Callbacks {
 public:
  Callbacks(JNIEnv* env, jobject java) : java_(env->NewGlobalRef(java)) {}
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;
  static Callbacks* of(jlong pointer) {
    return reinterpret_cast<Callbacks*>(pointer);  // NOLINT(performance-no-int-to-ptr): what callbacksCreate gave
  }

  static void log(void* user, graft_log_level level, const char* message);
  static int on_text(void* user, const char* text, size_t bytes);
  static int on_token(void* user, int32_t token, const float* logits, size_t vocabulary);
  static void progress(void* user, graft_stage stage, uint64_t done, uint64_t total);
  /// graft_read_sample, over places of these sizes.
  void set_sizes(std::vector<size_t> sizes) { sizes_ = std::move(sizes); }
  static int read(void* user, uint64_t index, void* const* out);
  /// False where an exception is pending: the cipher did not tell its overhead.
  bool fill(JNIEnv* env, graft_cipher& cipher);

 private:
  static int seal(void* user, const void* associated, size_t associated_bytes, const void* plain, size_t bytes,
                  void* out);
  static int open(void* user, const void* associated, size_t associated_bytes, const void* sealed, size_t bytes,
                  void* out);
  int transform(jmethodID method, const void* associated, size_t associated_bytes, const void* in, size_t bytes,
                size_t out_bytes, void* out);

  jobject java_;
  size_t overhead_ = 0;
  std::vector<size_t> sizes_;
};

/// Of ByteBuffers, which the caller fills.
jobjectArray java_buffer_array(JNIEnv* env, size_t count);

bool find_callbacks(JNIEnv* env, JavaVM* machine);

}  // namespace graft::jni

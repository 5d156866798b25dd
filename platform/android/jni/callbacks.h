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
  Callbacks(JNIEnv* env, jobject java, bool takes_tokens)
      : java_(env->NewGlobalRef(java)), takes_tokens_(takes_tokens) {}
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;
  static Callbacks* of(jlong pointer) {
    return reinterpret_cast<Callbacks*>(pointer);  // NOLINT(performance-no-int-to-ptr): what callbacksCreate gave
  }

  bool takes_tokens() const { return takes_tokens_; }

  static void log(void* user, graft_log_level level, const char* message);
  static int on_text(void* user, const char* text, size_t bytes);
  static int on_token(void* user, int32_t token, const float* logits, size_t vocabulary);
  static void progress(void* user, graft_stage stage, uint64_t done, uint64_t total);
  /// graft_read_sample, over places of these sizes.
  void set_sizes(std::vector<size_t> sizes) { sizes_ = std::move(sizes); }
  static int read(void* user, uint64_t index, void* const* out);
  /// The cipher over this; null where an exception is pending: it did not tell its overhead.
  const graft_cipher* cipher(JNIEnv* env);

 private:
  static int seal(void* user, const void* associated, size_t associated_bytes, const void* plain, size_t bytes,
                  void* out);
  static int open(void* user, const void* associated, size_t associated_bytes, const void* sealed, size_t bytes,
                  void* out);
  int transform(jmethodID method, const void* associated, size_t associated_bytes, const void* in, size_t bytes,
                size_t out_bytes, void* out);

  jobject java_;
  graft_cipher cipher_{};
  std::vector<size_t> sizes_;
  bool takes_tokens_;
};

/// Has graft call back by `callbacks` (0: nothing); false where an exception is pending.
bool attach(JNIEnv* env, jlong callbacks, graft_context_options& options);
bool attach(JNIEnv* env, jlong callbacks, graft_generate_options& options);
bool attach(JNIEnv* env, jlong callbacks, graft_checkpoint_options& options);
bool attach(JNIEnv* env, jlong callbacks, graft_store_options& options);
bool attach(JNIEnv* env, jlong callbacks, graft_memory_options& options);
bool cipher_of(JNIEnv* env, jlong callbacks, graft_cipher& cipher);

bool find_callbacks(JNIEnv* env, JavaVM* machine);

}  // namespace graft::jni

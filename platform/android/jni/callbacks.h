// From graft to Java: ai.graft.Callbacks, from any thread.
#pragma once

#include <jni.h>

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
};

bool find_callbacks(JNIEnv* env, JavaVM* machine);

}  // namespace graft::jni

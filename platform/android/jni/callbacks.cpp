#include "platform/android/jni/callbacks.h"

#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

JavaVM* g_machine = nullptr;
jmethodID g_log, g_text, g_token, g_progress, g_overhead, g_seal, g_open, g_read;
jclass g_buffer = nullptr;

/// This thread's environment; a thread of graft's own is attached, as a daemon, until it ends.
JNIEnv* environment() {
  struct Attached {
    bool here = false;
    ~Attached() {
      if (here) g_machine->DetachCurrentThread();
    }
  };
  void* env = nullptr;
  if (g_machine->GetEnv(&env, JNI_VERSION_1_6) == JNI_OK) return static_cast<JNIEnv*>(env);
  static thread_local Attached attached;
  char name[] = "graft";
  JavaVMAttachArgs arguments = {JNI_VERSION_1_6, name, nullptr};
#ifdef __ANDROID__
  JNIEnv* made = nullptr;
  if (g_machine->AttachCurrentThreadAsDaemon(&made, &arguments) != JNI_OK) return nullptr;
  env = made;
#else
  if (g_machine->AttachCurrentThreadAsDaemon(&env, &arguments) != JNI_OK) return nullptr;
#endif
  attached.here = true;
  return static_cast<JNIEnv*>(env);
}

/// Local references of one callback: a thread that never returns to Java would collect them.
class Frame {
 public:
  explicit Frame(size_t references = 8) : env_(environment()) {
    if (env_ != nullptr && env_->PushLocalFrame(static_cast<jint>(references)) != 0) {
      env_->ExceptionClear();
      env_ = nullptr;
    }
  }
  ~Frame() {
    if (env_ == nullptr) return;
    env_->ExceptionClear();  // the virtual machine's own (no memory): Callbacks catches the app's
    env_->PopLocalFrame(nullptr);
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  JNIEnv* env() const { return env_; }

 private:
  JNIEnv* env_;
};

}  // namespace

bool find_callbacks(JNIEnv* env, JavaVM* machine) {
  g_machine = machine;
  jclass callbacks = env->FindClass("ai/graft/Callbacks");
  jclass buffer = callbacks == nullptr ? nullptr : env->FindClass("java/nio/ByteBuffer");
  if (buffer == nullptr) return false;
  g_buffer = static_cast<jclass>(env->NewGlobalRef(buffer));
  const struct {
    jmethodID* place;
    const char* name;
    const char* signature;
  } methods[] = {{&g_log, "onLog", "(ILjava/lang/String;)V"},
                 {&g_text, "onText", "(Ljava/lang/String;)Z"},
                 {&g_token, "onToken", "(ILjava/nio/ByteBuffer;)Z"},
                 {&g_progress, "onProgress", "(IJJ)V"},
                 {&g_overhead, "overhead", "()I"},
                 {&g_seal, "onSeal", "([B[BI)[B"},
                 {&g_open, "onOpen", "([B[BI)[B"},
                 {&g_read, "onRead", "(J[Ljava/nio/ByteBuffer;)I"}};
  for (const auto& wanted : methods) {
    if ((*wanted.place = env->GetMethodID(callbacks, wanted.name, wanted.signature)) == nullptr) return false;
  }
  return true;
}

Callbacks::~Callbacks() {
  if (JNIEnv* env = environment()) env->DeleteGlobalRef(java_);
}

void Callbacks::log(void* user, graft_log_level level, const char* message) {
  const Frame frame;
  if (frame.env() == nullptr) return;
  guarded(frame.env(), [&] {
    jstring text = java_text(frame.env(), message);
    if (text == nullptr) return;
    frame.env()->CallVoidMethod(static_cast<Callbacks*>(user)->java_, g_log, static_cast<jint>(level), text);
  });
}

int Callbacks::on_text(void* user, const char* text, size_t bytes) {
  const Frame frame;
  if (frame.env() == nullptr) return 0;
  return guarded(frame.env(), [&] {
    jstring piece = java_text(frame.env(), {text, bytes});
    if (piece == nullptr) return 0;
    return frame.env()->CallBooleanMethod(static_cast<Callbacks*>(user)->java_, g_text, piece) == JNI_TRUE ? 1 : 0;
  });
}

int Callbacks::on_token(void* user, int32_t token, const float* logits, size_t vocabulary) {
  const Frame frame;
  if (frame.env() == nullptr) return 0;
  jobject scores = java_buffer(frame.env(), logits, vocabulary * sizeof *logits);
  if (scores == nullptr) return 0;
  jobject java = static_cast<Callbacks*>(user)->java_;
  return frame.env()->CallBooleanMethod(java, g_token, static_cast<jint>(token), scores) == JNI_TRUE ? 1 : 0;
}

void Callbacks::progress(void* user, graft_stage stage, uint64_t done, uint64_t total) {
  const Frame frame;
  if (frame.env() == nullptr) return;
  frame.env()->CallVoidMethod(static_cast<Callbacks*>(user)->java_, g_progress, static_cast<jint>(stage),
                              static_cast<jlong>(done), static_cast<jlong>(total));
}

int Callbacks::read(void* user, uint64_t index, void* const* out) {
  auto& self = *static_cast<Callbacks*>(user);
  const Frame frame(8 + self.sizes_.size());
  JNIEnv* env = frame.env();
  if (env == nullptr) return -1;
  jobjectArray places = env->NewObjectArray(static_cast<jsize>(self.sizes_.size()), g_buffer, nullptr);
  for (size_t i = 0; i < self.sizes_.size(); ++i) {
    jobject place = places == nullptr ? nullptr : java_buffer(env, out[i], self.sizes_[i]);
    if (place == nullptr) return -1;
    env->SetObjectArrayElement(places, static_cast<jsize>(i), place);
  }
  const jint done = env->CallIntMethod(self.java_, g_read, static_cast<jlong>(index), places);
  return env->ExceptionCheck() == JNI_TRUE ? -1 : done;
}

const graft_cipher* Callbacks::cipher(JNIEnv* env) {
  const jint overhead = env->CallIntMethod(java_, g_overhead);
  if (env->ExceptionCheck() == JNI_TRUE) return nullptr;
  if (overhead < 1 || overhead > 64) {
    throw_status(env, GRAFT_INVALID_ARGUMENT,
                 "The cipher's overhead is " + std::to_string(overhead) + " bytes; it must be 1 to 64.");
    return nullptr;
  }
  cipher_ = sized<graft_cipher>();
  cipher_.overhead = static_cast<size_t>(overhead);
  cipher_.seal = seal;
  cipher_.open = open;
  cipher_.user = this;
  return &cipher_;
}

bool attach(JNIEnv*, jlong callbacks, graft_context_options& options) {
  if (callbacks == 0) return true;
  options.log = Callbacks::log;
  options.log_user = Callbacks::of(callbacks);
  return true;
}

bool attach(JNIEnv*, jlong callbacks, graft_generate_options& options) {
  if (callbacks == 0) return true;
  options.on_text = Callbacks::on_text;
  if (Callbacks::of(callbacks)->takes_tokens()) options.on_token = Callbacks::on_token;
  options.user = Callbacks::of(callbacks);
  return true;
}

bool attach(JNIEnv* env, jlong callbacks, graft_checkpoint_options& options) {
  return callbacks == 0 || (options.cipher = Callbacks::of(callbacks)->cipher(env)) != nullptr;
}

bool attach(JNIEnv* env, jlong callbacks, graft_store_options& options) {
  return callbacks == 0 || (options.cipher = Callbacks::of(callbacks)->cipher(env)) != nullptr;
}

bool attach(JNIEnv* env, jlong callbacks, graft_memory_options& options) {
  return callbacks == 0 || (options.cipher = Callbacks::of(callbacks)->cipher(env)) != nullptr;
}

bool cipher_of(JNIEnv* env, jlong callbacks, graft_cipher& cipher) {
  if (callbacks == 0) return true;
  const graft_cipher* made = Callbacks::of(callbacks)->cipher(env);
  if (made != nullptr) cipher = *made;
  return made != nullptr;
}

int Callbacks::transform(jmethodID method, const void* associated, size_t associated_bytes, const void* in,
                         size_t bytes, size_t out_bytes, void* out) {
  const Frame frame;
  JNIEnv* env = frame.env();
  if (env == nullptr) return 1;
  jbyteArray header = java_bytes(env, associated, associated_bytes);
  jbyteArray from = header == nullptr ? nullptr : java_bytes(env, in, bytes);
  if (from == nullptr) return 1;
  const auto to =
      static_cast<jbyteArray>(env->CallObjectMethod(java_, method, header, from, static_cast<jint>(out_bytes)));
  if (env->ExceptionCheck() == JNI_TRUE || to == nullptr) return 1;
  env->GetByteArrayRegion(to, 0, static_cast<jsize>(out_bytes), static_cast<jbyte*>(out));
  return env->ExceptionCheck() == JNI_TRUE ? 1 : 0;
}

int Callbacks::seal(void* user, const void* associated, size_t associated_bytes, const void* plain, size_t bytes,
                    void* out) {
  auto& self = *static_cast<Callbacks*>(user);
  return self.transform(g_seal, associated, associated_bytes, plain, bytes, bytes + self.cipher_.overhead, out);
}

int Callbacks::open(void* user, const void* associated, size_t associated_bytes, const void* sealed, size_t bytes,
                    void* out) {
  auto& self = *static_cast<Callbacks*>(user);
  if (bytes < self.cipher_.overhead) return 1;
  return self.transform(g_open, associated, associated_bytes, sealed, bytes, bytes - self.cipher_.overhead, out);
}

}  // namespace graft::jni

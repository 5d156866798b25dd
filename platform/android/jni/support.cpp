#include "platform/android/jni/support.h"

#include "platform/android/jni/packed.h"

#include <limits>

namespace graft::jni {
namespace {

// Found once, in JNI_OnLoad: a thread that graft made would look classes up in another loader.
struct Found {
  jclass exception, float_array, int_array;
  jmethodID exception_of;
  jfieldID block_data, block_offset, block_bytes;
};
Found g_found;

jclass find_class(JNIEnv* env, const char* name) {
  jclass local = env->FindClass(name);
  if (local == nullptr) return nullptr;
  const auto global = static_cast<jclass>(env->NewGlobalRef(local));
  env->DeleteLocalRef(local);
  return global;
}

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_high(std::uint32_t c) { return c >= 0xD800 && c < 0xDC00; }
bool is_low(std::uint32_t c) { return c >= 0xDC00 && c < 0xE000; }

}  // namespace

bool find_classes(JNIEnv* env) {
  Found& f = g_found;
  f.exception = find_class(env, "ai/graft/GraftException");
  f.float_array = f.exception == nullptr ? nullptr : find_class(env, "[F");
  f.int_array = f.float_array == nullptr ? nullptr : find_class(env, "[I");
  jclass block = f.int_array == nullptr ? nullptr : env->FindClass("ai/graft/Block");
  if (block == nullptr) return false;
  f.exception_of = env->GetStaticMethodID(f.exception, "of", "(ILjava/lang/String;)Lai/graft/GraftException;");
  if (f.exception_of == nullptr) return false;
  f.block_data = env->GetFieldID(block, "data", "Ljava/lang/Object;");
  if (f.block_data == nullptr) return false;
  f.block_offset = env->GetFieldID(block, "offset", "J");
  if (f.block_offset == nullptr) return false;
  f.block_bytes = env->GetFieldID(block, "bytes", "J");
  return f.block_bytes != nullptr;
}

void throw_status(JNIEnv* env, graft_status status, const std::string& sentence) {
  if (env->ExceptionCheck() == JNI_TRUE) return;
  jstring text = java_text(env, sentence);
  if (text == nullptr) return;
  const auto thrown = static_cast<jthrowable>(
      env->CallStaticObjectMethod(g_found.exception, g_found.exception_of, static_cast<jint>(status), text));
  if (env->ExceptionCheck() != JNI_TRUE && thrown != nullptr) env->Throw(thrown);
}

bool succeeded(JNIEnv* env, const graft_context* context, graft_status status) {
  if (status == GRAFT_OK) return true;
  guarded(env, [&] { throw_status(env, status, graft_message(context)); });
  return false;
}

bool not_negative(JNIEnv* env, const char* what, jlong value) {
  if (value >= 0) return true;
  throw_status(env, GRAFT_INVALID_ARGUMENT,
               "\"" + std::string(what) + "\" is " + std::to_string(value) + "; it must not be negative.");
  return false;
}

jstring java_text(JNIEnv* env, std::string_view text) {
  std::u16string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    std::uint32_t c = length == 1 ? byte : byte & (0xFFu >> (length + 1));
    bool whole = (byte & 0xC0) != 0x80 && byte < 0xF8 && i + length <= text.size();
    for (std::size_t k = 1; whole && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      whole = (next & 0xC0) == 0x80;
      c = (c << 6) | (next & 0x3F);
    }
    if (!whole || c > 0x10FFFF) {  // a path in a message may hold any bytes
      out += u'\xFFFD';
      ++i;
      continue;
    }
    i += length;
    if (c < 0x10000) {
      out += static_cast<char16_t>(c);
    } else {
      out += static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10));
      out += static_cast<char16_t>(0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }
  if (out.size() > static_cast<std::size_t>(std::numeric_limits<jsize>::max())) {
    throw_status(env, GRAFT_UNSUPPORTED, "The text is longer than a String can be.");
    return nullptr;
  }
  return env->NewString(reinterpret_cast<const jchar*>(out.data()), static_cast<jsize>(out.size()));
}

Text::Text(JNIEnv* env, jstring text) : null_(text == nullptr) {
  if (null_) return;
  std::vector<jchar> units(static_cast<std::size_t>(env->GetStringLength(text)));
  env->GetStringRegion(text, 0, static_cast<jsize>(units.size()), units.data());
  text_.reserve(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::uint32_t c = units[i];
    if (is_high(c) && i + 1 < units.size() && is_low(units[i + 1])) {
      c = 0x10000 + ((c - 0xD800) << 10) + (units[++i] - 0xDC00u);
    } else if (is_high(c) || is_low(c)) {
      c = 0xFFFD;
    }
    append_utf8(text_, c);
  }
  ok_ = text_.find('\0') == std::string::npos;
  if (!ok_) {
    throw_status(env, GRAFT_INVALID_ARGUMENT,
                 "The text \"" + std::string(text_.c_str()) + "\" holds a zero character after that; texts must not hold one.");
  }
}

Blocks::~Blocks() {
  for (const Pinned& pinned : pinned_) {
    if (pinned.floats) {
      env_->ReleaseFloatArrayElements(static_cast<jfloatArray>(pinned.array), static_cast<jfloat*>(pinned.elements),
                                      JNI_ABORT);
    } else {
      env_->ReleaseIntArrayElements(static_cast<jintArray>(pinned.array), static_cast<jint*>(pinned.elements),
                                    JNI_ABORT);
    }
  }
}

bool Blocks::add(jobject block) {
  if (block == nullptr) {
    data_.push_back(nullptr);
    bytes_.push_back(0);
    return true;
  }
  jobject data = env_->GetObjectField(block, g_found.block_data);
  const auto offset = static_cast<std::size_t>(env_->GetLongField(block, g_found.block_offset));
  const auto bytes = static_cast<std::size_t>(env_->GetLongField(block, g_found.block_bytes));
  const void* start = nullptr;
  if (env_->IsInstanceOf(data, g_found.float_array) == JNI_TRUE) {
    start = env_->GetFloatArrayElements(static_cast<jfloatArray>(data), nullptr);
    if (start != nullptr) pinned_.push_back({static_cast<jarray>(data), const_cast<void*>(start), true});
  } else if (env_->IsInstanceOf(data, g_found.int_array) == JNI_TRUE) {
    start = env_->GetIntArrayElements(static_cast<jintArray>(data), nullptr);
    if (start != nullptr) pinned_.push_back({static_cast<jarray>(data), const_cast<void*>(start), false});
  } else {
    start = env_->GetDirectBufferAddress(data);
  }
  if (start == nullptr) {
    throw_status(env_, GRAFT_OUT_OF_MEMORY, "The virtual machine gave no address for an array or a buffer.");
    return false;
  }
  data_.push_back(static_cast<const std::byte*>(start) + offset);
  bytes_.push_back(bytes);
  return true;
}

bool Blocks::add_all(jobjectArray blocks) {
  const jsize count = env_->GetArrayLength(blocks);
  for (jsize i = 0; i < count; ++i) {
    if (!add(env_->GetObjectArrayElement(blocks, i))) return false;
  }
  return true;
}

SourceOf::SourceOf(JNIEnv* env, jobject memory, jint descriptor, jlong offset, jlong bytes) : blocks_(env) {
  graft_source& source = source_;
  if (memory == nullptr) {
    source.kind = GRAFT_SOURCE_DESCRIPTOR;
    source.descriptor = descriptor;
    source.offset = static_cast<std::uint64_t>(offset);
    source.bytes = static_cast<std::uint64_t>(bytes);
    ok_ = not_negative(env, "offset", offset) && not_negative(env, "bytes", bytes);
    return;
  }
  ok_ = blocks_.add(memory);
  if (!ok_) return;
  source.kind = GRAFT_SOURCE_MEMORY;
  source.data = blocks_.data()[0];
  source.bytes = blocks_.bytes(0);
  source.copy = 1;  // borrowed memory that the app changes later would be read beyond its checks
}

jobject java_buffer(JNIEnv* env, const void* data, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<jint>::max())) {
    throw_status(env, GRAFT_UNSUPPORTED,
                 "The value takes " + std::to_string(bytes) + " bytes, more than a ByteBuffer can hold.");
    return nullptr;
  }
  static char nothing = 0;
  return env->NewDirectByteBuffer(bytes == 0 ? &nothing : const_cast<void*>(data), static_cast<jlong>(bytes));
}

jbyteArray java_bytes(JNIEnv* env, const void* data, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<jsize>::max())) {
    throw_status(env, GRAFT_UNSUPPORTED, "There are " + std::to_string(bytes) + " bytes, more than a byte[] can hold.");
    return nullptr;
  }
  jbyteArray out = env->NewByteArray(static_cast<jsize>(bytes));
  if (out != nullptr) env->SetByteArrayRegion(out, 0, static_cast<jsize>(bytes), static_cast<const jbyte*>(data));
  return out;
}

In::In(JNIEnv* env, jbyteArray java) : null_(java == nullptr) {
  if (null_) return;
  const jsize bytes = env->GetArrayLength(java);
  words_.resize(static_cast<std::size_t>(bytes) / 8);
  env->GetByteArrayRegion(java, 0, bytes, reinterpret_cast<jbyte*>(words_.data()));
}

}  // namespace graft::jni

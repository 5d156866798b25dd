#include "platform/android/jni/support.h"

#include <limits>

namespace graft::jni {
namespace {

// Found once, in JNI_OnLoad: a thread that graft made would look classes up in another loader.
struct Found {
  jclass exception, text, info, metrics, checkpoint, forecast, generated, record;
  jmethodID exception_of, info_new, metrics_new, checkpoint_new, forecast_new, generated_new, record_new, ordinal;
  jfieldID block_data, block_offset, block_bytes;
  jclass float_array, int_array;
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
  jclass enums = nullptr;
  jclass block = nullptr;
  const struct {
    jclass* place;
    const char* name;
  } classes[] = {{&f.exception, "ai/graft/GraftException"},
                 {&f.text, "java/lang/String"},
                 {&f.info, "ai/graft/TensorInfo"},
                 {&f.metrics, "ai/graft/Metrics"},
                 {&f.checkpoint, "ai/graft/Checkpoint"},
                 {&f.forecast, "ai/graft/Forecast"},
                 {&f.generated, "ai/graft/Generator$Generated"},
                 {&f.record, "ai/graft/Record"},
                 {&f.float_array, "[F"},
                 {&f.int_array, "[I"},
                 {&enums, "java/lang/Enum"},
                 {&block, "ai/graft/Block"}};
  for (const auto& wanted : classes) {
    if ((*wanted.place = find_class(env, wanted.name)) == nullptr) return false;
  }
  f.exception_of = env->GetStaticMethodID(f.exception, "of", "(ILjava/lang/String;)Lai/graft/GraftException;");
  if (f.exception_of == nullptr) return false;
  const struct {
    jmethodID* place;
    jclass in;
    const char* name;
    const char* signature;
  } methods[] = {{&f.info_new, f.info, "<init>", "(Ljava/lang/String;I[J[Ljava/lang/String;)V"},
                 {&f.metrics_new, f.metrics, "<init>", "(Lai/graft/Record;)V"},
                 {&f.checkpoint_new, f.checkpoint, "<init>", "(JJJ)V"},
                 {&f.forecast_new, f.forecast, "<init>", "([JLjava/lang/String;)V"},
                 {&f.generated_new, f.generated, "<init>", "(Lai/graft/Record;Ljava/lang/String;[I[F[I[F)V"},
                 {&f.record_new, f.record, "<init>", "([J[D[Ljava/lang/String;)V"},
                 {&f.ordinal, enums, "ordinal", "()I"}};
  for (const auto& wanted : methods) {
    if ((*wanted.place = env->GetMethodID(wanted.in, wanted.name, wanted.signature)) == nullptr) return false;
  }
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
                 "The text \"" + std::string(text_.c_str()) + "\" goes on after a zero; texts must not hold zeros.");
  }
}

Texts::Texts(JNIEnv* env, jobjectArray texts) {
  const jsize count = texts == nullptr ? 0 : env->GetArrayLength(texts);
  for (jsize i = 0; i < count && ok_; ++i) {
    const auto text = static_cast<jstring>(env->GetObjectArrayElement(texts, i));
    texts_.emplace_back(env, text);
    env->DeleteLocalRef(text);
    ok_ = texts_.back().ok();
    pointers_.push_back(texts_.back().get());
  }
}

Bindings::Bindings(JNIEnv* env, jobjectArray names, jlongArray sizes) : names_(env, names) {
  std::vector<jlong> numbers(names_.size());
  if (!names_.ok()) return;
  env->GetLongArrayRegion(sizes, 0, static_cast<jsize>(numbers.size()), numbers.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) bindings_.push_back({names_.data()[i], numbers[i]});
}

Fields::Fields(JNIEnv* env, jobject object)
    : env_(env), object_(object), ok_(object != nullptr && env->ExceptionCheck() != JNI_TRUE) {
  if (ok_) {
    class_ = env->GetObjectClass(object);
  } else {
    throw_status(env, GRAFT_INVALID_ARGUMENT, "The options are null.");
  }
}

jfieldID Fields::field(const char* name, const char* signature) {
  ok_ = ok_ && env_->ExceptionCheck() != JNI_TRUE;  // of another object's fields, say
  if (!ok_) return nullptr;
  const jfieldID id = env_->GetFieldID(class_, name, signature);
  ok_ = id != nullptr;  // else NoSuchFieldError: something renamed the fields
  return id;
}

void Fields::refuse(const char* name, long long value) {
  ok_ = false;
  throw_status(env_, GRAFT_INVALID_ARGUMENT,
               std::string("The option \"") + name + "\" is " + std::to_string(value) + "; it must not be negative.");
}

const char* Fields::text(const char* name) {
  const jfieldID id = field(name, "Ljava/lang/String;");
  if (id == nullptr) return nullptr;
  texts_.emplace_back(env_, static_cast<jstring>(env_->GetObjectField(object_, id)));
  ok_ = texts_.back().ok();
  return texts_.back().get();
}

std::span<const double> Fields::reals(const char* name) {
  const jfieldID id = field(name, "[D");
  const auto array = id == nullptr ? nullptr : static_cast<jdoubleArray>(env_->GetObjectField(object_, id));
  if (array == nullptr) return {};
  std::vector<double>& numbers = numbers_.emplace_back(static_cast<std::size_t>(env_->GetArrayLength(array)));
  env_->GetDoubleArrayRegion(array, 0, static_cast<jsize>(numbers.size()), numbers.data());
  return numbers;
}

std::span<const std::int32_t> Fields::ints(const char* name) {
  const jfieldID id = field(name, "[I");
  const auto array = id == nullptr ? nullptr : static_cast<jintArray>(env_->GetObjectField(object_, id));
  if (array == nullptr) return {};
  return ints_.emplace_back(ints_of(env_, array));
}

const Texts& Fields::texts(const char* name) {
  jobject value = object(name, "[Ljava/lang/String;");
  lists_.emplace_back(env_, static_cast<jobjectArray>(value));
  ok_ = ok_ && lists_.back().ok();
  return lists_.back();
}

double Fields::real(const char* name) {
  const jfieldID id = field(name, "D");
  return id == nullptr ? 0 : env_->GetDoubleField(object_, id);
}

int Fields::flag(const char* name) {
  const jfieldID id = field(name, "Z");
  return id != nullptr && env_->GetBooleanField(object_, id) == JNI_TRUE ? 1 : 0;
}

std::uint32_t Fields::bits(const char* name) {
  const jfieldID id = field(name, "I");
  return id == nullptr ? 0 : static_cast<std::uint32_t>(env_->GetIntField(object_, id));
}

std::uint64_t Fields::bits64(const char* name) {
  const jfieldID id = field(name, "J");
  return id == nullptr ? 0 : static_cast<std::uint64_t>(env_->GetLongField(object_, id));
}

std::uint32_t Fields::count(const char* name) {
  const auto value = static_cast<std::int32_t>(bits(name));
  if (value < 0) refuse(name, value);
  return static_cast<std::uint32_t>(value);
}

std::uint64_t Fields::number(const char* name) {
  const auto value = static_cast<std::int64_t>(bits64(name));
  if (value < 0) refuse(name, value);
  return static_cast<std::uint64_t>(value);
}

jobject Fields::object(const char* name, const char* signature) {
  const jfieldID id = field(name, signature);
  jobject value = id == nullptr ? nullptr : env_->GetObjectField(object_, id);
  if (ok_ && value == nullptr) {
    ok_ = false;
    throw_status(env_, GRAFT_INVALID_ARGUMENT, std::string("The option \"") + name + "\" is null.");
  }
  return value;
}

int Fields::ordinal(const char* name, const char* signature) {
  jobject constant = object(name, signature);
  if (constant == nullptr) return 0;
  const jint value = env_->CallIntMethod(constant, g_found.ordinal);
  ok_ = env_->ExceptionCheck() != JNI_TRUE;
  return value;
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

jobject java_info(JNIEnv* env, const graft_tensor_info& info, jobjectArray dimensions) {
  jstring name = java_text(env, info.name);
  jlongArray dims = name == nullptr ? nullptr : env->NewLongArray(static_cast<jsize>(info.rank));
  if (dims == nullptr) return nullptr;
  static_assert(sizeof(jlong) == sizeof info.dims[0]);
  env->SetLongArrayRegion(dims, 0, static_cast<jsize>(info.rank), reinterpret_cast<const jlong*>(info.dims));
  if (dimensions == nullptr) dimensions = new_texts(env, 0);
  if (dimensions == nullptr) return nullptr;
  return env->NewObject(g_found.info, g_found.info_new, name, static_cast<jint>(info.dtype), dims, dimensions);
}

jobjectArray new_infos(JNIEnv* env, std::size_t count) {
  return env->NewObjectArray(static_cast<jsize>(count), g_found.info, nullptr);
}

jobjectArray new_texts(JNIEnv* env, std::size_t count) {
  return env->NewObjectArray(static_cast<jsize>(count), g_found.text, nullptr);
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

jobject new_metrics(JNIEnv* env, const graft_metrics& metrics) {
  jobject record =
      Record(env)
          .numbers(metrics.step, metrics.skipped_steps)
          .reals(metrics.loss, metrics.accuracy, metrics.learning_rate, metrics.loss_scale, metrics.reward_margin)
          .java();
  return record == nullptr ? nullptr : env->NewObject(g_found.metrics, g_found.metrics_new, record);
}

jobject new_checkpoint(JNIEnv* env, const graft_checkpoint_info& info) {
  return env->NewObject(g_found.checkpoint, g_found.checkpoint_new, static_cast<jlong>(info.step),
                        static_cast<jlong>(info.samples_done), static_cast<jlong>(info.journalled));
}

jobject new_generated(JNIEnv* env, const graft_generated& generated, std::uint64_t id) {
  jobject record = Record(env)
                       .numbers(id, generated.reason, generated.prompt_tokens, generated.cached_tokens,
                                generated.drafted_tokens, generated.right_drafts, generated.most_probable_count)
                       .reals(generated.prompt_ms, generated.generated_ms, generated.first_token_ms)
                       .java();
  jstring text = record == nullptr ? nullptr : java_text(env, {generated.text, generated.bytes});
  jintArray tokens = text == nullptr ? nullptr : java_ints(env, generated.tokens, generated.token_count);
  if (tokens == nullptr) return nullptr;
  jfloatArray sure = nullptr;
  if (generated.log_probabilities != nullptr) {
    if ((sure = java_floats(env, generated.log_probabilities, generated.token_count)) == nullptr) return nullptr;
  }
  std::vector<std::int32_t> names;
  std::vector<float> logs;
  for (std::size_t i = 0; i < generated.token_count * generated.most_probable_count; ++i) {
    const graft_token_probability& one = generated.most_probable[i];
    names.push_back(one.token);
    logs.push_back(one.log_probability);
  }
  jintArray most = java_ints(env, names.data(), names.size());
  jfloatArray how = most == nullptr ? nullptr : java_floats(env, logs.data(), logs.size());
  if (how == nullptr) return nullptr;
  return env->NewObject(g_found.generated, g_found.generated_new, record, text, tokens, sure, most, how);
}

jobject Record::java() const {
  const auto count = static_cast<jsize>(texts_.size());
  jlongArray numbers = env_->NewLongArray(static_cast<jsize>(numbers_.size()));
  jdoubleArray reals = numbers == nullptr ? nullptr : env_->NewDoubleArray(static_cast<jsize>(reals_.size()));
  jobjectArray texts = reals == nullptr ? nullptr : new_texts(env_, texts_.size());
  if (texts == nullptr) return nullptr;
  env_->SetLongArrayRegion(numbers, 0, static_cast<jsize>(numbers_.size()), numbers_.data());
  env_->SetDoubleArrayRegion(reals, 0, static_cast<jsize>(reals_.size()), reals_.data());
  for (jsize i = 0; i < count; ++i) {
    const auto& own = texts_[static_cast<std::size_t>(i)];
    if (!own) continue;
    jstring text = java_text(env_, *own);
    if (text == nullptr) return nullptr;
    env_->SetObjectArrayElement(texts, i, text);
    env_->DeleteLocalRef(text);
  }
  return env_->NewObject(g_found.record, g_found.record_new, numbers, reals, texts);
}

jobjectArray java_list(JNIEnv* env, const std::vector<Record>& records) {
  jobjectArray out = env->NewObjectArray(static_cast<jsize>(records.size()), g_found.record, nullptr);
  for (std::size_t i = 0; out != nullptr && i < records.size(); ++i) {
    if (env->PushLocalFrame(16) != 0) return nullptr;
    jobject one = records[i].java();
    if (one == nullptr) return nullptr;
    env->SetObjectArrayElement(out, static_cast<jsize>(i), one);
    env->PopLocalFrame(nullptr);
  }
  return out;
}

jintArray java_ints(JNIEnv* env, const std::int32_t* values, std::size_t count) {
  jintArray out = env->NewIntArray(static_cast<jsize>(count));
  if (out != nullptr) env->SetIntArrayRegion(out, 0, static_cast<jsize>(count), values);
  return out;
}

std::vector<std::int32_t> ints_of(JNIEnv* env, jintArray java) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(env->GetArrayLength(java)));
  env->GetIntArrayRegion(java, 0, static_cast<jsize>(out.size()), out.data());
  return out;
}

jfloatArray java_floats(JNIEnv* env, const float* values, std::size_t count) {
  jfloatArray out = env->NewFloatArray(static_cast<jsize>(count));
  if (out != nullptr) env->SetFloatArrayRegion(out, 0, static_cast<jsize>(count), values);
  return out;
}

jlongArray java_longs(JNIEnv* env, const std::uint64_t* values, std::size_t count) {
  jlongArray out = env->NewLongArray(static_cast<jsize>(count));
  if (out != nullptr) {
    env->SetLongArrayRegion(out, 0, static_cast<jsize>(count), reinterpret_cast<const jlong*>(values));
  }
  return out;
}

jdoubleArray java_doubles(JNIEnv* env, const double* values, std::size_t count) {
  jdoubleArray out = env->NewDoubleArray(static_cast<jsize>(count));
  if (out != nullptr) env->SetDoubleArrayRegion(out, 0, static_cast<jsize>(count), values);
  return out;
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

jobject new_forecast(JNIEnv* env, const graft_forecast& f) {
  const std::uint64_t numbers[] = {f.weights,     f.parameters,  f.gradients,  f.optimizer, f.activations,
                                   f.workspace,   f.staging,     f.step_state, f.total,     f.flops,
                                   f.extra_flops, f.micro_batch, f.recomputed};
  constexpr jsize kCount = sizeof numbers / sizeof *numbers;
  jlongArray values = env->NewLongArray(kCount);
  jstring explanation = values == nullptr ? nullptr : java_text(env, f.explanation);
  if (explanation == nullptr) return nullptr;
  env->SetLongArrayRegion(values, 0, kCount, reinterpret_cast<const jlong*>(numbers));
  return env->NewObject(g_found.forecast, g_found.forecast_new, values, explanation);
}

}  // namespace graft::jni

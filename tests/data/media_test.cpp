// Pictures and sounds as data sets: what they decode to, how they are changed at random, what is said of bad ones.
#ifdef GRAFT_HAVE_CODECS
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <numeric>

#include "platform/codecs/codecs.h"
#include "runtime/data/loader.h"
#include "runtime/data/sound.h"
#include "runtime/data/spec.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/paths.h"
#include "tests/support/samples.h"

namespace graft::data::media_test {
namespace {

const std::string kFiles = test::source_dir() + "/tests/fuzz/corpus/media/";
const media::Codecs& codecs() { return codecs::system_codecs(); }

std::string contents(const std::string& name) {
  std::ifstream file(kFiles + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Result<std::unique_ptr<Source>> open(const std::string& spec, Hints hints = {}) {
  FileOptions files;
  files.codecs = &codecs();
  return open_spec(spec, files, hints);
}
std::unique_ptr<Source> opened(const std::string& spec, const Hints& hints = {}) {
  auto source = open(spec, hints);
  EXPECT_TRUE(source.ok()) << source.status().message();
  return std::move(source).value();
}
std::string message(const Result<std::unique_ptr<Source>>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.status().message();
}
#define EXPECT_SAYS(spec, text) EXPECT_NE(message(open(spec)).find(text), std::string::npos) << message(open(spec))

class Media : public testing::Test {
 protected:
  /// Copies a file of the corpus.
  std::string put(const std::string& from, const std::string& to) {
    std::filesystem::create_directories(std::filesystem::path(folder_.file(to)).parent_path());
    return folder_.write(to, contents(from));
  }
  test::TemporaryFolder folder_;
};

TEST_F(Media, PicturesDecodeAsPillowDecodesThem) {
  struct Row {
    const char* name;
    int rgb, gray, slack;  // sums of all values; CMYK is rounded in another order
  };
  for (const Row& row : {Row{"jpeg.jpg", 14987, 5573, 0},
                         {"rgb.png", 14972, 5567, 0},
                         {"lossless.webp", 14972, 5567, 0},
                         {"rgb.bmp", 14972, 5567, 0},
                         {"cmyk.jpg", 14998, 5575, 162}}) {
    const std::string file = contents(row.name);
    for (const bool gray : {false, true}) {
      const auto image = codecs().decode_image(bytes(file), gray ? media::Pixels::gray : media::Pixels::rgb, {});
      ASSERT_TRUE(image.ok()) << row.name << image.status().message();
      EXPECT_EQ(image->header.width, 9u);
      EXPECT_EQ(image->header.height, 6u);
      const int sum = std::accumulate(image->bytes.begin(), image->bytes.end(), 0);
      EXPECT_NEAR(sum, gray ? row.gray : row.rgb, row.slack) << row.name;
    }
  }
  const std::string png = contents("palette.png"), bmp = contents("palette.bmp");
  const auto mask = codecs().decode_image(bytes(png), media::Pixels::index, {});
  ASSERT_TRUE(mask.ok());
  for (std::size_t i = 0; i < mask->bytes.size(); ++i) ASSERT_EQ(mask->bytes[i], (i / 9 + i % 9) % 4);
  EXPECT_EQ(codecs().decode_image(bytes(bmp), media::Pixels::index, {})->bytes, mask->bytes);
}

TEST_F(Media, EveryTruncationIsRefusedAndEveryBitFlipIsBounded) {
  constexpr media::Limits kLimits{.pixels = 1 << 16, .samples = 1 << 16};
  for (const auto& entry : std::filesystem::directory_iterator(kFiles)) {
    const std::string name = entry.path().filename().string(), whole = contents(name);
    const bool sound = name.ends_with(".wav");
    const auto read = [&](const std::string& file) -> Status {
      if (sound) return codecs().decode_sound(bytes(file), kLimits).status();
      return codecs().decode_image(bytes(file), media::Pixels::rgb, kLimits).status();
    };
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Status status = read(whole.substr(0, size));
      EXPECT_FALSE(status.ok()) << name << " cut to " << size << " of " << whole.size();
      EXPECT_TRUE(status.ok() || status.message().ends_with('.')) << status.message();
    }
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string changed = whole;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      const Status status = read(changed);
      EXPECT_TRUE(status.ok() || status.message().ends_with('.')) << status.message();
    }
  }
}

std::string big(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = bytes; i-- > 0;) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string little(std::uint64_t value, std::size_t bytes) {
  std::string out = big(value, bytes);
  return {out.rbegin(), out.rend()};
}

/// A TIFF header with one tag, or two.
std::string exif(std::uint32_t orientation, bool big_endian) {
  const auto number = big_endian ? big : little;
  const std::string other = number(0x0100, 2) + number(4, 2) + number(1, 4) + number(9, 4);
  const std::string value = number(orientation, 2) + number(0, 2);
  return (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) + other + number(0x0112, 2) +
         number(3, 2) + number(1, 4) + value + number(0, 4);
}

std::string png_chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big(data.size(), 4) + body + big(sum, 4);
}
/// `rows` of big-endian samples; color 0: gray, 2: RGB. `last` stands before the end.
std::string png(std::uint32_t width, std::uint32_t height, int bits, int color, const std::string& rows,
                const std::string& last = "") {
  std::string raw;
  const std::size_t stride = rows.size() / height;
  for (std::size_t y = 0; y < height; ++y) raw += '\0' + rows.substr(y * stride, stride);
  std::string packed(compressBound(raw.size()), '\0');
  uLongf size = packed.size();
  EXPECT_EQ(
      compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()), raw.size()),
      Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         png_chunk("IHDR", big(width, 4) + big(height, 4) + static_cast<char>(bits) + static_cast<char>(color) +
                               std::string(3, '\0')) +
         png_chunk("IDAT", packed) + last + png_chunk("IEND", "");
}

TEST_F(Media, OrientationTurnsPicturesUpright) {
  // Two rows of three, and what EXIF's eight values make of them.
  const std::vector<std::string> upright = {"123/456",  "321/654",  "654/321",  "456/123",
                                            "14/25/36", "41/52/63", "63/52/41", "36/25/14"};
  std::filesystem::create_directories(folder_.file("x"));
  const auto read = [&](const std::string& file, const std::string& options = "") {
    folder_.write("x/a.png", file);
    const auto source = opened("folder:" + folder_.path() + "?grayscale=yes" + options);
    const auto values = test::sample_of(*source, 0);
    const auto width = source->fields()[0].shape[2].value();
    std::string text;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      if (i > 0 && i % static_cast<std::size_t>(width) == 0) text += '/';
      text += static_cast<char>(std::lround(values[i] * 255));
    }
    return text;
  };
  for (std::uint32_t value = 1; value <= 8; ++value) {
    const std::string file = png(3, 2, 8, 0, "123456", png_chunk("eXIf", exif(value, value % 2 == 0)));
    EXPECT_EQ(read(file), upright[value - 1]) << value;
    EXPECT_EQ(read(file, "&orientation=ignore"), "123/456") << value;
    EXPECT_EQ(codecs().image_header(bytes(file), {})->orientation, value);
  }
  EXPECT_EQ(read(png(3, 2, 8, 0, "123456", png_chunk("eXIf", exif(9, true)))), "123/456") << "no such value";
  EXPECT_EQ(read(png(3, 2, 8, 0, "123456", png_chunk("eXIf", exif(6, true).substr(0, 30)))), "123/456") << "cut off";
  EXPECT_SAYS("folder:" + folder_.path() + "?orientation=up", "must be apply or ignore");
  // Crops and resizing see the upright picture.
  const std::string turned = png(3, 2, 8, 0, "123456", png_chunk("eXIf", exif(6, true)));
  EXPECT_EQ(read(turned, "&crop=1x2"), "52");
  EXPECT_EQ(read(turned, "&resize=3x1"), read(png(2, 3, 8, 0, "415263"), "&resize=3x1"));
  // The same tag in a JPEG and a WebP.
  const std::string tag = "Exif" + std::string(2, '\0') + exif(8, false), jpeg = contents("jpeg.jpg");
  const std::string photo = jpeg.substr(0, 2) + "\xff\xe1" + big(tag.size() + 2, 2) + tag + jpeg.substr(2);
  EXPECT_EQ(codecs().image_header(bytes(photo), {})->orientation, 8u);
  EXPECT_EQ(codecs().image_header(bytes(jpeg), {})->orientation, 1u);
  const std::string webp = contents("lossless.webp"), data = exif(5, true);
  const std::string body = "WEBPVP8X" + little(10, 4) + little(8, 4) + little(8, 3) + little(5, 3) + webp.substr(12) +
                           std::string(webp.size() % 2, '\0') + "EXIF" + little(data.size(), 4) + data;
  const auto header = codecs().image_header(bytes("RIFF" + little(body.size(), 4) + body), {});
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->orientation, 5u);
  EXPECT_EQ(header->width, 9u) << "as it is stored";
}

TEST_F(Media, SixteenBitsOfAPixelAreRead) {
  const std::string gray = png(2, 1, 16, 0, big(0x1234, 2) + big(0xfedc, 2));
  const std::string rgb = png(1, 1, 16, 2, big(1, 2) + big(0x8001, 2) + big(0xffff, 2));
  std::filesystem::create_directories(folder_.file("x"));
  folder_.write("x/a.png", gray);
  const auto spec = "folder:" + folder_.path();
  auto values = test::sample_of(*opened(spec + "?grayscale=yes"), 0);
  EXPECT_NEAR(values[0], 0x1234 / 65535.0, 1e-7);
  EXPECT_NEAR(values[1], 0xfedc / 65535.0, 1e-7);
  values = test::sample_of(*opened(spec), 0);  // as three channels
  EXPECT_NEAR(values[4], 0x1234 / 65535.0, 1e-7);
  folder_.write("x/a.png", rgb);
  values = test::sample_of(*opened(spec), 0);
  EXPECT_NEAR(values[0], 1 / 65535.0, 1e-8);
  EXPECT_NEAR(values[1], 0x8001 / 65535.0, 1e-7);
  EXPECT_EQ(values[2], 1);
  values = test::sample_of(*opened(spec + "?grayscale=yes"), 0);
  EXPECT_NEAR(values[0], (0.299 * 1 + 0.587 * 0x8001 + 0.114 * 0xffff) / 65535, 2 / 65535.0);
  EXPECT_NE(codecs()
                .decode_image(bytes(contents("rgb.png")), media::Pixels::rgb16, {})
                .status()
                .message()
                .find("is a PNG of 8 bits a channel, not of 16."),
            std::string::npos);
}

TEST_F(Media, SmallFilesDoNotDecodeToMuch) {
  std::filesystem::create_directories(folder_.file("x"));
  folder_.write("x/a.png", png(8192, 8192, 8, 0, std::string(8192 * 8192, '\0')));
  EXPECT_SAYS("folder:" + folder_.path(), "a.png\" has 8192 x 8192 pixels, more than the limit of ");
  EXPECT_SAYS("folder:" + folder_.path(), " for a file of ");
  std::filesystem::remove(folder_.file("x/a.png"));
  // 10 KB at 1 Hz become 160 million samples at 16 kHz.
  std::string wav = contents("pcm16.wav").substr(0, 44);
  wav.replace(24, 8, little(1, 4) + little(2, 4));
  wav.replace(40, 4, little(20000, 4));
  wav += std::string(20000, '\1');
  wav.replace(4, 4, little(wav.size() - 8, 4));
  folder_.write("x/a.wav", wav);
  EXPECT_SAYS("wav:" + folder_.path() + "?rate=16000",
              "has 10000 samples at a rate of 1, which make 160000000 at rate=16000, more than the limit of ");
  EXPECT_EQ(opened("wav:" + folder_.path() + "?rate=16000&length=100")->fields()[0].shape, Shape{100});
  EXPECT_EQ(test::sample_of(*opened("wav:" + folder_.path() + "?rate=16000&length=100"), 0).size(), 101u);
}

TEST(Sound, ResamplingKeepsNoMoreThanAskedFor) {
  std::vector<float> in(3000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(std::sin(0.01 * static_cast<double>(i)));
  // Rates without a common divisor: too many weights to keep.
  for (const auto& [from, to] : {std::pair{8000u, 11025u}, {44101u, 16001u}, {999983u, 99991u}}) {
    const auto whole = resampled(in, from, to, ~0ull);
    EXPECT_EQ(whole.size(), resampled_count(in.size(), from, to));
    const auto some = resampled(in, from, to, 100);
    ASSERT_EQ(some.size(), 100u);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), whole.begin()));
    for (std::size_t n = 20; n < 100; ++n) {
      const double at = static_cast<double>(n) * from / to;
      EXPECT_NEAR(whole[n], std::sin(0.01 * at), 5e-3) << n << " of " << from << " to " << to;
    }
  }
}

TEST_F(Media, HugePicturesAreRefusedByTheirHeader) {
  put("bomb.png", "x/bomb.png");
  EXPECT_SAYS("folder:" + folder_.path(), "bomb.png\" has 65535 x 65535 pixels, more than the limit of ");
}

TEST_F(Media, FoldersAreClasses) {
  put("rgb.png", "dog/b.PNG");
  put("rgb.bmp", "dog/a.bmp");
  put("lossless.webp", "cat/c.webp");
  folder_.write("cat/notes.txt", "no picture");
  const auto source = opened("folder:" + folder_.path() + "?mean=0.5&std=0.25");
  EXPECT_EQ(source->size(), 3u);
  EXPECT_EQ(source->fields()[0].shape, (Shape{3, 6, 9}));
  EXPECT_EQ(source->fields()[1].classes, (std::vector<std::string>{"cat", "dog"}));
  const auto cat = test::sample_of(*source, 0), dog = test::sample_of(*source, 2);
  ASSERT_EQ(cat.size(), 3u * 6 * 9 + 1);
  EXPECT_EQ(cat.back(), 0);
  EXPECT_EQ(dog.back(), 1);
  EXPECT_TRUE(std::equal(cat.begin(), cat.end() - 1, dog.begin())) << "lossless all of them";
  EXPECT_FLOAT_EQ(static_cast<float>(cat[54 + 1]), (28 / 255.0f - 0.5f) / 0.25f);  // green of the second pixel
  // The model's input decides the order of axes and the channels; its classes keep their numbers.
  Hints hints;
  hints.inputs = {{"x", DType::f32, {-1, -1, 3}}};
  hints.classes = {"ant", "cat", "dog"};
  const auto last = opened("folder:" + folder_.path(), hints);
  EXPECT_EQ(last->fields()[0].shape, (Shape{6, 9, 3}));
  EXPECT_FLOAT_EQ(static_cast<float>(test::sample_of(*last, 0)[3 + 1]), 28 / 255.0f);
  EXPECT_EQ(test::sample_of(*last, 0).back(), 1);
  hints.inputs[0].dims = {1, 6, 9};
  EXPECT_EQ(opened("folder:" + folder_.path(), hints)->fields()[0].shape, (Shape{1, 6, 9}));
  EXPECT_EQ(opened("folder:" + folder_.path() + "?resize=3x5&grayscale=yes")->fields()[0].shape, (Shape{1, 3, 5}));
  EXPECT_EQ(opened("folder:" + folder_.path() + "?resize=12&crop=8")->fields()[0].shape, (Shape{3, 8, 8}));
}

TEST_F(Media, ListsNameFilesAndLabels) {
  put("rgb.png", "a.png");
  put("gray.png", "b.png");
  const auto spec = [&](const std::string& rows) {
    return "folder:" + folder_.path() + "?list=" + folder_.write("list.csv", rows);
  };
  const auto named = opened(spec("path,label\nb.png,night\na.png,day\n"));
  EXPECT_EQ(named->fields()[1].classes, (std::vector<std::string>{"day", "night"}));
  EXPECT_EQ(test::sample_of(*named, 0).back(), 1);
  EXPECT_EQ(test::sample_of(*opened(spec("a.png,7\n")), 0).back(), 7);
  EXPECT_EQ(test::sample_of(*opened(spec("a.png,0.5\n")), 0).back(), 0.5);
  EXPECT_SAYS(spec("a.png\n"), "has 1 columns; a path and a label are wanted");
  EXPECT_SAYS(spec("path,label\n"), "names no file that ends in .jpg");
  EXPECT_SAYS(spec("gone.png,1\n"), "gone.png");
}

TEST_F(Media, BadFoldersAreOneSentence) {
  EXPECT_SAYS("folder:" + folder_.file("none"), "none");
  EXPECT_SAYS("folder:" + folder_.path(), "names no file that ends in .jpg, .jpeg, .png, .webp, .bmp.");
  put("rgb.png", "loose.png");
  EXPECT_SAYS("folder:" + folder_.path(), "holds files but no folders, each of which would be a class");
  put("rgb.png", "x/a.png");
  folder_.write("x/b.jpg", "");
  EXPECT_SAYS("folder:" + folder_.path(), "x/b.jpg\" is no picture that this build reads: JPEG, PNG, WebP, BMP.");
  std::filesystem::remove(folder_.file("x/b.jpg"));
  put("rgb.png", "y/a.png");
  const std::string rotated = "BM" + contents("rgb.bmp").substr(2);
  std::string narrow = rotated;
  narrow[18] = 5;  // 5 x 6 pixels of the same rows
  folder_.write("y/b.bmp", narrow);
  EXPECT_SAYS("folder:" + folder_.path(), "y/b.bmp\" has 5 x 6 pixels, but");
  EXPECT_SAYS("folder:" + folder_.path() + "?resize=0x4", "HEIGHTxWIDTH");
  EXPECT_SAYS("folder:" + folder_.path() + "?resize=4x4&flip=maybe", "must be yes, both or no");
  EXPECT_SAYS("folder:" + folder_.path() + "?resize=4x4&mean=1,2", "one for each of 3 channels");
  EXPECT_SAYS("folder:" + folder_.path() + "?resize=4x4&colour=red", "no option \"colour\"");
  EXPECT_NE(message(open_spec("folder:" + folder_.path())).find("there are none here"), std::string::npos);
  EXPECT_TRUE(open("folder:" + folder_.path() + "?resize=4x4").ok());
}

/// All batches of two epochs from the cursor on, as bytes.
std::vector<std::string> batches(Source& source, std::uint32_t threads, std::uint32_t prefetch, std::size_t from = 0) {
  auto loader = Loader::create(source, {.batch = 4, .seed = 7, .epochs = 2, .threads = threads, .prefetch = prefetch});
  EXPECT_TRUE(loader.ok()) << loader.status().message();
  std::vector<std::string> all;
  Cursor cursor;
  for (std::size_t i = 0;; ++i) {
    if (i == from && i > 0) {  // killed here: another loader goes on, once the first reads no more
      loader->reset();
      loader = Loader::create(source, {.batch = 4, .seed = 7, .epochs = 2, .threads = threads, .prefetch = prefetch});
      EXPECT_TRUE((*loader)->restore(cursor).ok());
    }
    const auto batch = (*loader)->next();
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return all;
    cursor = (*batch)->after();
    std::string text;
    for (std::size_t f = 0; f < source.fields().size(); ++f) {
      const auto field = (*batch)->field(f);
      text.append(reinterpret_cast<const char*>(field.data()), field.size());
    }
    all.push_back(std::move(text));
  }
}

TEST_F(Media, RandomChangesDependOnSeedEpochAndSampleAlone) {
  for (int i = 0; i < 6; ++i) {
    put(i % 2 == 0 ? "rgb.png" : "lossy.webp", "one/" + std::to_string(i) + (i % 2 == 0 ? ".png" : ".webp"));
    put("jpeg.jpg", "two/" + std::to_string(i) + ".jpg");
  }
  const std::string spec =
      "folder:" + folder_.path() + "?flip=both&random_crop=2&rotate=20&jitter=0.4,0.4,0.4,0.1&cutout=3&mixup=0.4";
  const auto source = opened(spec);
  EXPECT_EQ(source->fields()[1].shape, Shape{2});
  const auto alone = batches(*source, 1, 0);
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_EQ(batches(*source, 4, 2), alone) << "by four threads";
  EXPECT_EQ(batches(*source, 3, 1, 2), alone) << "resumed within the first epoch";
  EXPECT_EQ(batches(*source, 2, 3, 4), alone) << "resumed within the second epoch";
  source->start_epoch(7, 0);
  const auto first = test::sample_of(*source, 3);
  EXPECT_EQ(test::sample_of(*source, 3), first);
  source->start_epoch(7, 1);
  EXPECT_NE(test::sample_of(*source, 3), first);
  source->start_epoch(8, 0);
  EXPECT_NE(test::sample_of(*source, 3), first);
  EXPECT_NEAR(first[first.size() - 1] + first[first.size() - 2], 1, 1e-6) << "shares of classes";
  // For evaluation nothing is drawn, and the fields are the same.
  Hints hints;
  hints.augment = false;
  const auto plain = opened(spec, hints), never = opened("folder:" + folder_.path());
  const auto image = test::sample_of(*plain, 3), wanted = test::sample_of(*never, 3);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end() - 1, image.begin()));
  EXPECT_EQ(image[image.size() - 2], 1);
}

TEST_F(Media, AFailureIsTheFirstBadSampleWhateverTheThreads) {
  for (int i = 0; i < 8; ++i) put("rgb.png", "one/" + std::to_string(i) + ".png");
  const auto source = opened("folder:" + folder_.path());
  folder_.write("one/5.png", contents("rgb.png").substr(0, 60));
  folder_.write("one/6.png", contents("rgb.png").substr(0, 50));
  for (const std::uint32_t threads : {1u, 4u}) {
    auto loader = Loader::create(*source, {.batch = 8, .shuffle = false, .threads = threads}).value();
    const auto batch = loader->next();
    ASSERT_FALSE(batch.ok());
    EXPECT_NE(batch.status().message().find("sample 5 of the data set"), std::string::npos) << batch.status().message();
    EXPECT_NE(batch.status().message().find("one/5.png\" is damaged"), std::string::npos) << batch.status().message();
  }
}

TEST_F(Media, MasksTurnWithTheirPictures) {
  put("gray.png", "images/a.png");  // grows along both axes, as its mask's sum of row and column modulo 4 does
  put("palette.png", "masks/a.png");
  const std::string spec = "folder:" + folder_.file("images") + ";mask=" + folder_.file("masks");
  const auto plain = opened(spec + "?void=3");
  EXPECT_EQ(plain->fields()[1].name, "mask");
  EXPECT_EQ(plain->fields()[1].shape, (Shape{6, 9}));
  const auto before = test::sample_of(*plain, 0);
  EXPECT_EQ(before[162 + 1], 1);
  EXPECT_EQ(before[162 + 3], -100) << "void";
  const auto flipped = opened(spec + "?flip=both&random_crop=1&rotate=90");
  bool moved = false;
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    flipped->start_epoch(1, epoch);
    const auto now = test::sample_of(*flipped, 0);
    moved = moved || now != before;
    for (std::size_t i = 0; i < 54; ++i) {
      const double number = now[162 + i];
      EXPECT_TRUE(number == -100 || (number >= 0 && number <= 3)) << number;
    }
  }
  EXPECT_TRUE(moved);
  // Flips alone: the mask has at each pixel what belongs to the picture's value there.
  const auto only = opened(spec + "?flip=both");
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    only->start_epoch(1, epoch);
    const auto now = test::sample_of(*only, 0);
    const auto still = opened(spec);
    const auto was = test::sample_of(*still, 0);
    for (std::size_t i = 0; i < 54; ++i) {
      bool found = false;
      for (std::size_t k = 0; k < 54; ++k) found = found || (was[k] == now[i] && was[162 + k] == now[162 + i]);
      EXPECT_TRUE(found) << i;
    }
  }
  put("jpeg.jpg", "lossy/a.jpg");
  const auto lossy = opened("folder:" + folder_.file("images") + ";mask=" + folder_.file("lossy"));
  std::uint64_t first = 0;
  std::vector<std::byte> a(4 * 162), b(4 * 54);
  std::byte* const out[] = {a.data(), b.data()};
  const auto refused = lossy->read(first, out);
  EXPECT_NE(refused.status().message().find("a.jpg\" is a JPEG, whose losses"), std::string::npos);
  put("gray.png", "images/b.png");
  EXPECT_SAYS(spec, "b.png\" has no mask of its name");
}

TEST_F(Media, SoundsOfAllWidthsAtOneRate) {
  put("pcm16.wav", "a/one.wav");
  put("pcm24.wav", "b/two.wav");
  put("float_stereo.wav", "c/three.wav");
  const auto source = opened("wav:" + folder_.path() + "?rate=8000&length=48&lengths=n");
  ASSERT_EQ(source->fields().size(), 3u);
  EXPECT_EQ(source->fields()[0].shape, Shape{48});
  const auto one = test::sample_of(*source, 0), two = test::sample_of(*source, 1), three = test::sample_of(*source, 2);
  for (std::size_t t = 0; t < 40; ++t) {
    EXPECT_NEAR(one[t], 0.5 * std::sin(0.4 * static_cast<double>(t)), 2.0 / 32768) << "cut to 16 bits";
    EXPECT_NEAR(three[t], 0.125 * std::sin(0.4 * static_cast<double>(t)), 1e-7) << "the mean of 1 and -0.5 times it";
  }
  EXPECT_EQ(one[40], 0);
  EXPECT_EQ(one[48], 40);
  EXPECT_EQ(two[48], 20) << "half the rate";
  // A sine far below both limits stays one, away from the ends.
  for (std::size_t t = 6; t < 14; ++t) EXPECT_NEAR(two[t], 0.5 * std::sin(0.8 * static_cast<double>(t)), 0.01) << t;
  EXPECT_EQ(opened("wav:" + folder_.path())->fields()[0].shape, Shape{40}) << "as the first";
  EXPECT_SAYS("wav:" + folder_.path() + "?length=20&mel=8,window=32", "do not fill one window of 32");
  EXPECT_SAYS("wav:" + folder_.path() + "?mel=8,span=32", "has no \"span\"");
  folder_.write("c/four.wav", contents("pcm16.wav").substr(0, 100));
  const auto cut = opened("wav:" + folder_.path());
  std::uint64_t last = 2;
  std::vector<std::byte> a(160), b(4);
  std::byte* const out[] = {a.data(), b.data()};
  EXPECT_NE(cut->read(last, out).status().message().find("four.wav\" is damaged: it has 56 bytes of sound where"),
            std::string::npos);
  std::string other = contents("pcm16.wav");
  folder_.write("c/four.wav", other.replace(20, 2, "\x61\x01"));  // the format tag of Windows Media
  EXPECT_NE(opened("wav:" + folder_.path())->read(last, out).status().message().find("its encoding is not supported"),
            std::string::npos);
}

TEST(Sound, LogMelIsTheSumOfADirectTransform) {
  std::vector<float> samples(100);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<float>(std::sin(0.3 * static_cast<double>(i * i % 97)));
  const MelOptions options{.bands = 6, .window = 24, .hop = 10, .fft = 32, .low = 50};
  const auto mel = LogMel::create(options, 1000);
  ASSERT_TRUE(mel.ok());
  ASSERT_EQ(mel->frames(100), 8u);
  const auto got = mel->of(samples);
  const auto edge = [&](std::size_t i) {
    const auto to_mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
    const double at = to_mel(50) + (to_mel(500) - to_mel(50)) * static_cast<double>(i) / 7;
    return 700 * (std::pow(10, at / 2595) - 1);
  };
  for (std::size_t t = 0; t < 8; ++t) {
    for (std::size_t b = 0; b < 6; ++b) {
      double energy = 0;
      for (std::size_t k = 0; k <= 16; ++k) {
        double re = 0, im = 0;
        for (std::size_t i = 0; i < 24; ++i) {
          const double window = std::pow(std::sin(std::numbers::pi * static_cast<double>(i) / 24), 2);
          const double angle = 2 * std::numbers::pi * static_cast<double>(k * i) / 32;
          re += window * samples[10 * t + i] * std::cos(angle);
          im += window * samples[10 * t + i] * std::sin(angle);
        }
        const double hz = static_cast<double>(k) * 1000 / 32;
        const double up = (hz - edge(b)) / (edge(b + 1) - edge(b)),
                     down = (edge(b + 2) - hz) / (edge(b + 2) - edge(b + 1));
        energy += std::max(std::min(up, down), 0.0) * (re * re + im * im);
      }
      EXPECT_NEAR(got[b * 8 + t], std::log(energy + 1e-6), 1e-5);
    }
  }
  EXPECT_NE(LogMel::create({.window = 24, .fft = 30}, 1000).status().message().find("power of two"), std::string::npos);
}

TEST(Ts, SeriesOfUnequalLengthsArePadded) {
  test::TemporaryFolder folder;
  const std::string head = "# a comment\n@problemName x\n@data\n", path = folder.file("x.ts");
  folder.write("x.ts", head + "1,2,3:4,5,6:walk\r\n7:8:run\n");
  const auto source = open_spec("ts:" + path + "?lengths=n").value();
  EXPECT_EQ(source->fields()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(source->fields()[2].classes, (std::vector<std::string>{"run", "walk"}));
  EXPECT_EQ(test::sample_of(*source, 0), (std::vector<double>{1, 2, 3, 4, 5, 6, 3, 1}));
  EXPECT_EQ(test::sample_of(*source, 1), (std::vector<double>{7, 0, 0, 8, 0, 0, 1, 0}));
  EXPECT_EQ(test::sample_of(*open_spec("ts:" + path + "?length=2&layout=steps").value(), 0),
            (std::vector<double>{1, 4, 2, 5, 1}));
  const auto says = [&](const std::string& text, const std::string& what) {
    folder.write("x.ts", text);
    EXPECT_NE(message(open_spec("ts:" + path)).find(what), std::string::npos);
  };
  says(head, "holds no time series");
  says("1,2:a\n", "stands before @data");
  says(head + "1,?:a\n", "Line 4 of");
  says(head + "1,2:3:a\n", "dimensions of 2 and 1 values");
  says(head + "1,2:a\n1,2:3,4:a\n", "has 2 dimensions, but the first has 1");
  says("@timeStamps\ttrue\n" + head + "(0,1),(1,2):a\n", "a time with each value (@timeStamps true)");
  says("@classLabel false\n" + head + "1,2:3,4\n", "Line 5 of \"" + path + "\" has no label");
  const std::string numbers = "@targetLabel true\n@classLabel false\n" + head;
  folder.write("x.ts", numbers + "1,2:-2.5\n3,4:7\n");
  const auto real = open_spec("ts:" + path).value();
  EXPECT_EQ(real->fields()[1].dtype, DType::f32);
  EXPECT_TRUE(real->fields()[1].classes.empty());
  EXPECT_EQ(test::sample_of(*real, 0), (std::vector<double>{1, 2, -2.5}));
  EXPECT_EQ(test::sample_of(*real, 1), (std::vector<double>{3, 4, 7}));
  says(numbers + "1,2:fast\n", "Series 0 of \"" + path + "\" has the label \"fast\"");
}

}  // namespace
}  // namespace graft::data::media_test
#endif
